// luminal_runtime.h -- runs a program that Luminal compiled ahead of time: plain C11 and POSIX
// threads, no compiler.
//
// Every function that can fail returns a luminal_error; luminal_message says more. A model may be
// used by one thread at a time; several models may run side by side. Numbers of dimensions, inputs,
// outputs and states are in the header that was exported with the program.
#pragma once
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  LUMINAL_OK = 0,
  LUMINAL_ERROR_FILE,       // the weights file: missing, cut off, of another export
  LUMINAL_ERROR_MEMORY,     // there is none
  LUMINAL_ERROR_PROCESSOR,  // this one lacks instructions that the program was compiled for
  LUMINAL_ERROR_ARGUMENT,   // no such number, or a dimension out of its range
  LUMINAL_ERROR_DIMENSIONS, // together they break what the program assumes
  // an index lies outside of what it selects from: read from an input, or made of the dimensions
  LUMINAL_ERROR_INDEX,
  LUMINAL_ERROR_THREADS // the system makes no more threads
} luminal_error;

typedef enum {
  LUMINAL_BOOL,
  LUMINAL_I4,
  LUMINAL_U4,
  LUMINAL_I8,
  LUMINAL_U8,
  LUMINAL_I16,
  LUMINAL_U16,
  LUMINAL_I32,
  LUMINAL_U32,
  LUMINAL_I64,
  LUMINAL_U64,
  LUMINAL_F8E4M3,
  LUMINAL_F8E5M2,
  LUMINAL_BF16,
  LUMINAL_F16,
  LUMINAL_F32,
  LUMINAL_F64
} luminal_dtype;

typedef struct luminal_model luminal_model;

// A value: memory, packed and row-major, at the present sizes of the dimensions.
typedef struct {
  const char* name;
  luminal_dtype dtype;
  int rank;
  const int64_t* shape; // `rank` extents, until the next call with this model
  void* data;
  int64_t bytes;
} luminal_value;

const char* luminal_error_name(luminal_error error);
// What the last failing call with this model had to say; "" before.
const char* luminal_message(const luminal_model* model);

// Sizes of dynamic dimensions hold until they are set again; at first each is the lowest of its
// range.
luminal_error luminal_set_dim(luminal_model* model, int dim, int64_t size);
int64_t luminal_dim(const luminal_model* model, int dim); // -1: no such dimension
// Memory of an input, to be filled before luminal_run. It keeps its content.
luminal_error luminal_input(luminal_model* model, int input, luminal_value* value);
// Memory of the caller instead, from now on; at least as many bytes as luminal_input says.
luminal_error luminal_bind_input(luminal_model* model, int input, const void* data, int64_t bytes);
luminal_error luminal_run(luminal_model* model);
// A result of the last luminal_run, until the next one.
luminal_error luminal_output(luminal_model* model, int output, luminal_value* value);
// What lives from run to run, such as a key-value cache; zero at first.
luminal_error luminal_state(luminal_model* model, int state, luminal_value* value);
void luminal_reset_states(luminal_model* model);
void luminal_close(luminal_model* model); // also of NULL

// ---- what an exported program consists of; written by the compiler ----

typedef void (*luminal_kernel)(void* const* buffers, const int64_t* symbols, char* shared, char* local,
                               int64_t worker, int64_t workers, void* barrier_context,
                               void (*barrier)(void*));
typedef struct {
  const char* name;
  int64_t low, high, multiple;
} luminal_plan_symbol; // the dimensions first, then counters of loops
enum {
  LUMINAL_SLOT_ARGUMENT,
  LUMINAL_SLOT_FILE,
  LUMINAL_SLOT_STATE,
  LUMINAL_SLOT_LOADED,
  LUMINAL_SLOT_ARENA
};
typedef struct {
  const char* name;
  int kind, dtype, rank;
  int sizes;         // index of its extents, then of its bytes, in the sizes
  int64_t offset;    // in the file or the arena; -1: it has no memory
  int64_t max_bytes; // at the largest dimensions
} luminal_plan_slot;
typedef struct {
  int64_t points; // a launch of at most so many
  int workers;    // runs on at most so many workers
} luminal_plan_cap;
typedef struct {
  luminal_kernel function;
  int symbols, symbol_count; // part of kernel_symbols
  int points;                // index in the sizes
  int caps, cap_count;       // part of caps
} luminal_plan_kernel;
enum {
  LUMINAL_STEP_LAUNCH,
  LUMINAL_STEP_COPY,
  LUMINAL_STEP_ZERO,
  LUMINAL_STEP_CHECK,
  LUMINAL_STEP_LOOP,
  LUMINAL_STEP_COND
};
typedef struct {
  int kind, kernel;
  int slots, slot_count;                            // part of step_slots
  int body, body_count, otherwise, otherwise_count; // parts of steps
  int count, counter, condition, taken;             // loop: index in the sizes, symbol, slots or -1
  int limit;                                        // check: index in the sizes, or -1
  int enough; // check: index in the sizes, or -1: where it is not 0, the body and the slot need no look
  int64_t low, high;
  const char* text;
} luminal_plan_step;
typedef struct {
  const char* name;
  uint64_t file_hash, file_bytes;
  int dims, symbol_count, slot_count, kernel_count, input_count, output_count, state_count, size_count,
      assumption_count;
  const luminal_plan_symbol* symbols;
  const luminal_plan_slot* slots;
  const luminal_plan_kernel* kernels;
  const luminal_plan_cap* caps;
  const int* kernel_symbols;
  const luminal_plan_step* steps;
  const int* step_slots;
  int load_steps, load_step_count, run_steps, run_step_count; // parts of steps
  const int* inputs;
  const int* outputs;
  const char* const* output_names;
  const int* states;
  void (*sizes)(const int64_t* symbols, int64_t* sizes);
  int assumptions; // index in the sizes
  const char* const* assumption_texts;
  int64_t arena_bytes, load_arena_bytes, shared_bytes, local_stride;
  int most_buffers, most_symbols;
  const char* (*missing_instructions)(void); // NULL: the processor has all
} luminal_plan;
// threads: at least 1; the caller of luminal_run is one of them. message: gets a text where it
// fails, may be NULL.
luminal_error luminal_open(const luminal_plan* plan, const char* weights_path, int threads,
                           luminal_model** model, char* message, size_t message_bytes);

#ifdef __cplusplus
}
#endif
