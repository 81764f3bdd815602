// capi/c.cpp -- the functions of luminal/c.h: no exception passes them, what went wrong is kept for
// luminal_error.
#include "luminal/c.h"
#include "base/file.h"
#include "capi/c_program.h"
#include "ir/trust.h"
#include <string>

struct luminal_program {
  luminal::capi::CProgram program;
  std::string name; // of the last result that was asked for
};

namespace {

thread_local std::string last_error;

/// The result of `work`, or `failed` and a text for luminal_error.
template <class R, class F> R guarded(R failed, F&& work) noexcept {
  try {
    last_error.clear();
    return work();
  } catch (const std::exception& error) {
    last_error = error.what();
  } catch (...) {
    last_error = "[luminal] an exception of an unknown type";
  }
  return failed;
}

template <class F> int done(const luminal_program* program, F&& work) noexcept {
  return guarded(0, [&] {
    if (!program) throw luminal::Error("[program] the program is null");
    work();
    return 1;
  });
}

std::string text_of(const char* text, const char* what) {
  if (!text) throw luminal::Error(std::string("[program] ") + what + " is null");
  return text;
}

luminal_program* program_from(const std::string& text, const std::string& file) {
  return new luminal_program{luminal::capi::CProgram(luminal::parse_module_from(text, file, false)), {}};
}

std::vector<int64_t> shape_of(int rank, const int64_t* shape) {
  if (rank < 0 || rank > 64 || (rank > 0 && !shape))
    throw luminal::Error("[set_input] a shape has 0 to 64 sizes");
  return {shape, shape + rank};
}

} // namespace

int luminal_c_version(void) { return LUMINAL_C_VERSION; }
const char* luminal_version(void) { return "0.1.0"; }
const char* luminal_error(void) { return last_error.c_str(); }

luminal_program* luminal_program_from_text(const char* text) {
  return guarded<luminal_program*>(nullptr,
                                   [&] { return program_from(text_of(text, "the text"), "<text>"); });
}

luminal_program* luminal_program_from_file(const char* path) {
  return guarded<luminal_program*>(nullptr, [&] {
    const std::string name = text_of(path, "the path");
    auto text = luminal::read_file(name);
    if (!text) throw luminal::Error("[program] " + text.error());
    return program_from(*text, name);
  });
}

void luminal_program_free(luminal_program* program) { delete program; }

int luminal_input_count(const luminal_program* program) {
  return program ? int(program->program.inputs().size()) : 0;
}
int luminal_output_count(const luminal_program* program) {
  return program ? int(program->program.outputs().size()) : 0;
}

int luminal_input(luminal_program* program, int index, luminal_value* value) {
  return done(program, [&] { program->program.describe_input(index, *value); });
}

const char* luminal_output_name(luminal_program* program, int index) {
  if (!program || index < 0 || index >= luminal_output_count(program)) return nullptr;
  program->name = program->program.outputs()[size_t(index)].name;
  return program->name.c_str();
}

int luminal_set_dim(luminal_program* program, const char* name, int64_t size) {
  return done(program, [&] { program->program.set_dim(text_of(name, "the name"), size); });
}

int luminal_set_input(luminal_program* program, const char* name, const char* dtype, int rank,
                      const int64_t* shape, const void* data) {
  return done(program, [&] {
    program->program.set_input(text_of(name, "the name"), text_of(dtype, "the dtype"), shape_of(rank, shape),
                               data, true);
  });
}

int luminal_borrow_input(luminal_program* program, const char* name, const char* dtype, int rank,
                         const int64_t* shape, const void* data) {
  return done(program, [&] {
    program->program.set_input(text_of(name, "the name"), text_of(dtype, "the dtype"), shape_of(rank, shape),
                               data, false);
  });
}

int luminal_load_inputs(luminal_program* program, const char* path) {
  return done(program, [&] { program->program.load_inputs(text_of(path, "the path")); });
}

int luminal_set_option(luminal_program* program, const char* name, const char* value) {
  return done(program,
              [&] { program->program.set_option(text_of(name, "the name"), text_of(value, "the value")); });
}

int luminal_compile(luminal_program* program) {
  return done(program, [&] { program->program.compile(); });
}

int luminal_execute(luminal_program* program) {
  return done(program, [&] { program->program.execute(); });
}

int luminal_output(luminal_program* program, const char* name, luminal_value* value) {
  return done(program, [&] { program->program.output(text_of(name, "the name"), *value); });
}

const char* luminal_report(luminal_program* program) { return program ? program->program.report() : ""; }
