/* tests/capi/c_program.c -- the C interface from C: a program read, run at two sizes, its states, its mistakes. */
#include "luminal/c.h"
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  failures++;
  fprintf(stderr, "does not hold: %s; luminal_error: %s\n", what, luminal_error());
}

static void expect_error(int result, const char* text) {
  if (!result && strstr(luminal_error(), text)) return;
  failures++;
  fprintf(stderr, "expected an error with \"%s\", got %d \"%s\"\n", text, result, luminal_error());
}

static const char* text = "symbol n: 1..8\n"
                          "fn @main(%x: f32[n, 2], weight %w: f32[2], state %total: f32[2]) {\n"
                          "  %v = view %w [i: n, j: 2] -> [j]\n"
                          "  %y = mul %x, %v\n"
                          "  %f = fold [i: n, j: 2] over [i] { sum %y[i, j] }\n"
                          "  %s = get %f, 0\n"
                          "  %next = add %total, %s\n"
                          "  return y = %y, next = %next -> total\n"
                          "}\n";

static void run(luminal_program* p) {
  float w[2] = {1, 10}, x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  int64_t two[1] = {2}, rows2[2] = {2, 2}, rows4[2] = {4, 2};
  luminal_value value;
  expect(luminal_input_count(p) == 3 && luminal_input(p, 0, &value), "three inputs");
  expect(strcmp(value.name, "x") == 0 && strcmp(value.dtype, "f32") == 0 && value.rank == 2 && value.shape[0] == -1 && value.shape[1] == 2, "x: f32[n, 2]");
  expect_error(luminal_execute(p), "has no value yet");
  expect(luminal_set_option(p, "threads", "1") && luminal_borrow_input(p, "w", "f32", 1, two, w) && luminal_set_input(p, "x", "f32", 2, rows2, x), "inputs are set");
  expect(luminal_execute(p) && luminal_output(p, "y", &value), "it runs");
  expect(value.rank == 2 && value.shape[0] == 2 && value.bytes == 16 && ((const float*)value.data)[3] == 40, "y of two rows");
  expect(luminal_set_input(p, "x", "f32", 2, rows4, x) && luminal_execute(p) && luminal_output(p, "y", &value), "it runs at another size");
  expect(value.shape[0] == 4 && ((const float*)value.data)[7] == 80, "y of four rows");
  expect(luminal_output(p, "total", &value) && ((const float*)value.data)[0] == 20 && ((const float*)value.data)[1] == 260, "the state adds up");
  expect(strlen(luminal_report(p)) > 10, "a report");
  expect_error(luminal_output(p, "z", &value), "there is no result z; there are y");
  expect_error(luminal_set_input(p, "q", "f32", 1, two, w), "there is no input q; there are x, w, total");
  expect_error(luminal_set_input(p, "x", "f64", 2, rows2, x), "the value is f64");
  expect_error(luminal_set_input(p, "w", "f32", 2, rows2, x), "the value has shape [2, 2]");
  expect_error(luminal_set_input(p, "x", "f32", 2, rows2, NULL), "data is null");
  expect_error(luminal_set_dim(p, "n", 9), "outside of its range 1..8");
  expect_error(luminal_set_dim(p, "m", 1), "there is no dimension m; there are n");
  expect_error(luminal_set_option(p, "speed", "1"), "there is no option speed; there are threads");
  expect_error(luminal_set_option(p, "threads", "many"), "takes a number");
  expect_error(luminal_load_inputs(p, "nothing.safetensors"), "nothing.safetensors");
  expect_error(luminal_input(p, 3, &value), "there are 3 inputs");
}

int main(void) {
  expect(luminal_c_version() == LUMINAL_C_VERSION && strlen(luminal_version()) > 0, "versions agree");
  luminal_program* p = luminal_program_from_text(text);
  if (!p) fprintf(stderr, "%s\n", luminal_error());
  expect(p != NULL, "the text is read");
  if (p) run(p);
  luminal_program_free(p);
  luminal_program_free(NULL);
  expect_error(luminal_program_from_text("fn @main(%x: f32[3]) { return y = %z }") != NULL, "<text>:1:");
  expect_error(luminal_program_from_text(NULL) != NULL, "the text is null");
  expect_error(luminal_program_from_file("nothing.lum") != NULL, "nothing.lum");
  expect_error(luminal_execute(NULL), "the program is null");
  return failures != 0;
}
