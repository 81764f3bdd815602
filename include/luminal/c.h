// luminal/c.h -- the C interface: a program in text form is read, given data, compiled and run.
// Other languages bind through it.
//
//   luminal_program* p =
//       luminal_program_from_text("fn @main(%x: f32[3]) { %y = mul %x, %x  return y = %y }");
//   float x[3] = {1, 2, 3};
//   luminal_set_input(p, "x", "f32", 1, (int64_t[]){3}, x);
//   luminal_execute(p);
//   luminal_value y;
//   luminal_output(p, "y", &y);   // y.data: 1, 4, 9
//   luminal_program_free(p);
//
// The text is what Graph::to_string prints and docs/terms.md describes. A function that can fail
// returns 0, or null, and luminal_error() of the same thread says why. One program is for one
// thread at a time; different programs need no care. What is here keeps its meaning: additions
// raise LUMINAL_C_VERSION.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define LUMINAL_C_VERSION 1

#if defined(__GNUC__)
#define LUMINAL_C_API __attribute__((visibility("default")))
#else
#define LUMINAL_C_API
#endif

// NOLINTBEGIN(modernize-use-using, readability-identifier-naming): names and types are those of C
#ifdef __cplusplus
extern "C" {
#endif

typedef struct luminal_program luminal_program;

/// An input or a result. Pointers are valid until the next call with this program, `data` until it
/// runs again or ends.
typedef struct {
  const char* name;
  const char* dtype; ///< "f32", "bf16", "i64", "bool", ..: the words of the text form
  int rank;
  /// `rank` sizes; -1 where it depends on a dynamic dimension that has no size yet
  const int64_t* shape;
  const void* data; ///< row-major and packed; null where there is no value
  size_t bytes;
} luminal_value;

/// LUMINAL_C_VERSION of the library that is linked; a program may compare it with that of this header.
LUMINAL_C_API int luminal_c_version(void);
/// "0.1.0".
LUMINAL_C_API const char* luminal_version(void);
/// Why the last call of this thread failed; "" where none did. Valid until the thread's next call.
LUMINAL_C_API const char* luminal_error(void);

/// A module in text form. Null where it cannot be read: the error has line and column. Kernels that
/// a text brings along run as they are, so a text from strangers is refused where it has some.
LUMINAL_C_API luminal_program* luminal_program_from_text(const char* text);
LUMINAL_C_API luminal_program* luminal_program_from_file(const char* path);
LUMINAL_C_API void luminal_program_free(luminal_program* program); ///< null is allowed

/// What the program takes (arguments, weights and states) and gives, in the text's order.
LUMINAL_C_API int luminal_input_count(const luminal_program* program);
LUMINAL_C_API int luminal_input(luminal_program* program, int index, luminal_value* value);
LUMINAL_C_API int luminal_output_count(const luminal_program* program);
LUMINAL_C_API const char* luminal_output_name(luminal_program* program,
                                              int index); ///< null: there is no such result

/// The size of a dynamic dimension. set_input sets those that its shape names.
LUMINAL_C_API int luminal_set_dim(luminal_program* program, const char* name, int64_t size);
/// Copies an input's, weight's or state's value: row-major, packed, of its dtype.
LUMINAL_C_API int luminal_set_input(luminal_program* program, const char* name, const char* dtype, int rank,
                                    const int64_t* shape, const void* data);
/// The same, and the memory is read in place at each run: it stays as it is until the program ends
/// or is given another. A weight that changes is given again.
LUMINAL_C_API int luminal_borrow_input(luminal_program* program, const char* name, const char* dtype,
                                       int rank, const int64_t* shape, const void* data);
/// Gives all inputs the values of a .safetensors file that have their names.
LUMINAL_C_API int luminal_load_inputs(luminal_program* program, const char* path);

/// Options of the next compile, by name and text: "threads" ("4"; "0": all cores), "cache" ("0": no
/// object code on disk), "seconds" ("10": searches better schedules so long), "passes" (names as in
/// `luminal help passes`), "max_memory" (bytes).
LUMINAL_C_API int luminal_set_option(luminal_program* program, const char* name, const char* value);
/// Makes the machine code; luminal_execute does it where that has not been done. The sizes of
/// dimensions that are set are those that schedules are made for.
LUMINAL_C_API int luminal_compile(luminal_program* program);
/// One step: reads inputs and states, writes results and states.
LUMINAL_C_API int luminal_execute(luminal_program* program);
/// A result of the last run, or a state as it is now.
LUMINAL_C_API int luminal_output(luminal_program* program, const char* name, luminal_value* value);
/// One line a kernel; "" before compile. Valid until the next call with this program.
LUMINAL_C_API const char* luminal_report(luminal_program* program);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-use-using, readability-identifier-naming)
