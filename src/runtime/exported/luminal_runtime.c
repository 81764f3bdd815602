// luminal_runtime.c -- runs a program that Luminal compiled ahead of time; see luminal_runtime.h.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "luminal_runtime.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif
#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE 0
#endif

// ---- workers: the first ones run the same function; they spin for a while between launches, then sleep ----

typedef struct pool {
  int size, started;
  int team; // of the present launch
  pthread_t* threads;
  void (*function)(void* context, int worker);
  void* context;
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  _Alignas(64) atomic_ullong launch; // its number and, in the last 11 bits, its team: both are seen at once
  _Alignas(64) atomic_int left;
  atomic_int sleeping, stop;
  _Alignas(64) atomic_int arrived;
  _Alignas(64) atomic_uint barrier_generation;
} pool;

typedef struct {
  pool* of;
  int number;
} worker;

static void pause_a_little(unsigned turn) {
  if (turn % 1024 == 1023) {
    sched_yield(); // somebody else may need this core to come to where it is waited for
    return;
  }
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void* work(void* argument) {
  pool* p = ((worker*)argument)->of;
  const int number = ((worker*)argument)->number;
  free(argument);
  unsigned long long seen = 0;
  for (;;) {
    unsigned turn = 0;
    while (atomic_load(&p->launch) == seen && turn < 8192) pause_a_little(turn++);
    if (atomic_load(&p->launch) == seen) {
      pthread_mutex_lock(&p->mutex);
      atomic_fetch_add(&p->sleeping, 1); // whoever begins a launch after this sees it
      while (atomic_load(&p->launch) == seen) pthread_cond_wait(&p->wake, &p->mutex);
      atomic_fetch_sub(&p->sleeping, 1);
      pthread_mutex_unlock(&p->mutex);
    }
    seen = atomic_load(&p->launch);
    if (atomic_load(&p->stop)) return NULL;
    if (number >= (int)(seen % 2048)) continue; // nobody waits for it, so launches may pass by unseen
    p->function(p->context, number);
    atomic_fetch_sub_explicit(&p->left, 1, memory_order_release);
  }
}

static void begin_launch(pool* p, int team) {
  p->team = team;
  atomic_store(&p->launch, (atomic_load(&p->launch) / 2048 + 1) * 2048 + (unsigned)team);
  if (atomic_load(&p->sleeping) == 0) return;
  pthread_mutex_lock(&p->mutex);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->mutex);
}

static void pool_run(pool* p, int team, void (*function)(void*, int), void* context) {
  p->function = function;
  p->context = context;
  atomic_store(&p->left, team - 1);
  begin_launch(p, team);
  function(context, 0);
  for (unsigned turn = 0; atomic_load_explicit(&p->left, memory_order_acquire) > 0;) pause_a_little(turn++);
}

static void pool_barrier(void* context) {
  pool* p = (pool*)context;
  const unsigned generation = atomic_load_explicit(&p->barrier_generation, memory_order_acquire);
  if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) == p->team - 1) {
    atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&p->barrier_generation, generation + 1, memory_order_release);
    return;
  }
  for (unsigned turn = 0; atomic_load_explicit(&p->barrier_generation, memory_order_acquire) == generation;)
    pause_a_little(turn++);
}
static void no_barrier(void* context) { (void)context; }

static void pool_stop(pool* p) {
  if (p->started > 0) {
    atomic_store(&p->stop, 1);
    begin_launch(p, 0);
    for (int i = 0; i < p->started; i++) pthread_join(p->threads[i], NULL);
  }
  free(p->threads);
  pthread_cond_destroy(&p->wake);
  pthread_mutex_destroy(&p->mutex);
}

static int pool_start(pool* p, int size) {
  p->size = size;
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->wake, NULL);
  p->threads = (pthread_t*)calloc((size_t)size, sizeof(pthread_t));
  if (!p->threads) return 0;
  for (int i = 1; i < size; i++) {
    worker* w = (worker*)malloc(sizeof(worker));
    if (!w) return 0;
    w->of = p;
    w->number = i;
    if (pthread_create(&p->threads[i - 1], NULL, work, w) != 0) {
      free(w);
      return 0;
    }
    p->started++;
  }
  return 1;
}

// ---- a model ----

struct luminal_model {
  pool workers; // first: it is aligned
  const luminal_plan* plan;
  int64_t *symbols, *sizes;
  char** addresses; // of slots
  void** buffers;   // of a launch
  int64_t* values;  // of a launch
  char *arena, *scratch;
  char** owned;   // memory of single slots
  int64_t* bound; // bytes of the caller's memory for an input; -1: none
  int64_t scratch_bytes;
  const char* file;
  int stale;
  char message[1024];
};

static luminal_error fail(luminal_model* m, luminal_error error, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(m->message, sizeof m->message, format, arguments);
  va_end(arguments);
  return error;
}

// Zero, aligned to pages; what is never touched costs nothing.
static char* map_memory(int64_t bytes) {
  void* memory = mmap(NULL, (size_t)(bytes > 0 ? bytes : 1), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return NULL;
#if defined(MADV_HUGEPAGE)
  if (bytes >= (int64_t)1 << 22) madvise(memory, (size_t)bytes, MADV_HUGEPAGE);
#endif
  return (char*)memory;
}
static void unmap_memory(const char* memory, int64_t bytes) {
  if (memory) munmap((void*)(uintptr_t)memory, (size_t)(bytes > 0 ? bytes : 1));
}

static luminal_error refresh(luminal_model* m) {
  const luminal_plan* plan = m->plan;
  plan->sizes(m->symbols, m->sizes);
  for (int i = 0; i < plan->assumption_count; i++)
    if (!m->sizes[plan->assumptions + i])
      return fail(m, LUMINAL_ERROR_DIMENSIONS, "the dimensions break what the program was made for: %s",
                  plan->assumption_texts[i]);
  m->stale = 0;
  return LUMINAL_OK;
}

static int64_t slot_bytes(const luminal_model* m, int slot) {
  const luminal_plan_slot* s = &m->plan->slots[slot];
  return m->sizes[s->sizes + s->rank];
}

typedef struct {
  luminal_model* model;
  luminal_kernel function;
} launch;

static void launch_one(void* context, int number) {
  const launch* l = (const launch*)context;
  luminal_model* m = l->model;
  const luminal_plan* plan = m->plan;
  l->function(m->buffers, m->values, m->scratch,
              m->scratch + plan->shared_bytes + number * plan->local_stride, number, m->workers.team,
              &m->workers, pool_barrier);
}

static int64_t load_integer(int dtype, const char* data, int64_t i) {
  switch (dtype) {
  case LUMINAL_BOOL: return ((const uint8_t*)data)[i] != 0;
  case LUMINAL_I8: return ((const int8_t*)data)[i];
  case LUMINAL_U8: return ((const uint8_t*)data)[i];
  case LUMINAL_I16: return ((const int16_t*)data)[i];
  case LUMINAL_U16: return ((const uint16_t*)data)[i];
  case LUMINAL_I32: return ((const int32_t*)data)[i];
  case LUMINAL_U32: return ((const uint32_t*)data)[i];
  case LUMINAL_U64: {
    const uint64_t value = ((const uint64_t*)data)[i];
    return value > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)value; // beyond every extent
  }
  default: return ((const int64_t*)data)[i];
  }
}

static luminal_error check_range(luminal_model* m, const luminal_plan_step* step) {
  const int slot = m->plan->step_slots[step->slots];
  const luminal_plan_slot* s = &m->plan->slots[slot];
  int64_t count = 1, high = step->high;
  for (int d = 0; d < s->rank; d++) count *= m->sizes[s->sizes + d];
  if (step->limit >= 0 && m->sizes[step->limit] - 1 < high) high = m->sizes[step->limit] - 1;
  for (int64_t i = 0; i < count; i++) {
    const int64_t value = load_integer(s->dtype, m->addresses[slot], i);
    if (value < step->low || value > high)
      return fail(m, LUMINAL_ERROR_INDEX, "%s: element %lld is %lld, allowed are %lld..%lld", step->text,
                  (long long)i, (long long)value, (long long)step->low, (long long)high);
  }
  return LUMINAL_OK;
}

static luminal_error run_steps(luminal_model* m, int first, int count);

// The body tells whether any point breaks the condition; without a body the sizes alone say so.
static luminal_error check_points(luminal_model* m, const luminal_plan_step* step) {
  const luminal_plan* plan = m->plan;
  if (step->slot_count > 0) {
    const luminal_error error = run_steps(m, step->body, step->body_count);
    if (error != LUMINAL_OK) return error;
    if (!m->addresses[plan->step_slots[step->slots]][0]) return LUMINAL_OK;
  }
  luminal_error error = fail(m, LUMINAL_ERROR_INDEX, "%s", step->text);
  size_t at = strlen(m->message);
  for (int i = 0; i < plan->symbol_count && at + 1 < sizeof m->message; i++) {
    const int written = snprintf(m->message + at, sizeof m->message - at, "%s%s = %lld", i ? ", " : " (",
                                 plan->symbols[i].name, (long long)m->symbols[i]);
    at += written > 0 ? (size_t)written : 0;
  }
  if (plan->symbol_count > 0 && at + 1 < sizeof m->message) strcpy(m->message + at, ")");
  return error;
}

static luminal_error run_steps(luminal_model* m, int first, int count) {
  const luminal_plan* plan = m->plan;
  luminal_error error = LUMINAL_OK;
  for (int at = first; at < first + count && error == LUMINAL_OK; at++) {
    const luminal_plan_step* step = &plan->steps[at];
    const int* slots = plan->step_slots + step->slots;
    switch (step->kind) {
    case LUMINAL_STEP_LAUNCH: {
      const luminal_plan_kernel* kernel = &plan->kernels[step->kernel];
      for (int i = 0; i < step->slot_count; i++) m->buffers[i] = m->addresses[slots[i]];
      for (int i = 0; i < kernel->symbol_count; i++)
        m->values[i] = m->symbols[plan->kernel_symbols[kernel->symbols + i]];
      int team = m->workers.size;
      for (int i = kernel->caps; i < kernel->caps + kernel->cap_count; i++)
        if (m->sizes[kernel->points] <= plan->caps[i].points && plan->caps[i].workers < team)
          team = plan->caps[i].workers;
      if (team == 1) {
        kernel->function(m->buffers, m->values, m->scratch, m->scratch + plan->shared_bytes, 0, 1, NULL,
                         no_barrier);
      } else {
        launch l = {m, kernel->function};
        pool_run(&m->workers, team, launch_one, &l);
      }
      break;
    }
    case LUMINAL_STEP_COPY:
      memmove(m->addresses[slots[0]], m->addresses[slots[1]], (size_t)slot_bytes(m, slots[1]));
      break;
    case LUMINAL_STEP_ZERO: memset(m->addresses[slots[0]], 0, (size_t)slot_bytes(m, slots[0])); break;
    case LUMINAL_STEP_CHECK:
      if (step->enough < 0)
        error = check_range(m, step);
      else if (!m->sizes[step->enough])
        error = check_points(m, step);
      break;
    case LUMINAL_STEP_LOOP: {
      const int64_t turns = m->sizes[step->count];
      int64_t turn = 0;
      for (; turn < turns; turn++) {
        m->symbols[step->counter] = turn;
        if ((error = refresh(m)) != LUMINAL_OK) break;
        if (step->condition >= 0) {
          if ((error = run_steps(m, step->otherwise, step->otherwise_count)) != LUMINAL_OK) break;
          if (m->addresses[step->condition][0] == 0) break;
        }
        if ((error = run_steps(m, step->body, step->body_count)) != LUMINAL_OK) break;
      }
      if (step->taken >= 0) memcpy(m->addresses[step->taken], &turn, sizeof turn);
      break;
    }
    case LUMINAL_STEP_COND:
      error = m->addresses[slots[0]][0] ? run_steps(m, step->body, step->body_count)
                                        : run_steps(m, step->otherwise, step->otherwise_count);
      break;
    default: break;
    }
  }
  return error;
}

// Values computed once: their steps work in an arena of their own.
static void place_load_arena(luminal_model* m, int first, int count, char* arena) {
  const luminal_plan* plan = m->plan;
  for (int at = first; at < first + count; at++) {
    const luminal_plan_step* step = &plan->steps[at];
    for (int i = 0; i < step->slot_count; i++) {
      const int slot = plan->step_slots[step->slots + i];
      if (plan->slots[slot].kind == LUMINAL_SLOT_ARENA) m->addresses[slot] = arena + plan->slots[slot].offset;
    }
    place_load_arena(m, step->body, step->body_count, arena);
    place_load_arena(m, step->otherwise, step->otherwise_count, arena);
  }
}

static luminal_error load(luminal_model* m) {
  const luminal_plan* plan = m->plan;
  luminal_error error = LUMINAL_OK;
  if (plan->load_step_count > 0) {
    char* arena = map_memory(plan->load_arena_bytes);
    if (!arena)
      return fail(m, LUMINAL_ERROR_MEMORY, "there is no memory for %lld bytes",
                  (long long)plan->load_arena_bytes);
    place_load_arena(m, plan->load_steps, plan->load_step_count, arena);
    plan->sizes(m->symbols, m->sizes);
    error = run_steps(m, plan->load_steps, plan->load_step_count);
    unmap_memory(arena, plan->load_arena_bytes);
  }
  for (int i = 0; i < plan->slot_count; i++)
    if (plan->slots[i].kind == LUMINAL_SLOT_ARENA)
      m->addresses[i] = plan->slots[i].offset >= 0 ? m->arena + plan->slots[i].offset : NULL;
  return error;
}

static luminal_error open_file(luminal_model* m, const char* path) {
  const luminal_plan* plan = m->plan;
  const int file = path ? open(path, O_RDONLY) : -1;
  struct stat status;
  if (file < 0) return fail(m, LUMINAL_ERROR_FILE, "%s: cannot be opened", path ? path : "(no weights file)");
  const char* problem = NULL;
  void* memory = MAP_FAILED;
  if (fstat(file, &status) != 0 || (uint64_t)status.st_size != plan->file_bytes)
    problem = "has another size than the weights of this export";
  else if ((memory = mmap(NULL, (size_t)plan->file_bytes, PROT_READ, MAP_PRIVATE, file, 0)) == MAP_FAILED)
    problem = "cannot be mapped";
  close(file);
  if (problem) return fail(m, LUMINAL_ERROR_FILE, "%s: %s", path, problem);
  m->file = (const char*)memory;
  uint64_t hash;
  memcpy(&hash, m->file + 8, sizeof hash);
  if (memcmp(m->file, "LUMWGT1\n", 8) != 0 || hash != plan->file_hash)
    return fail(m, LUMINAL_ERROR_FILE, "%s: is not a weights file of this export", path);
  return LUMINAL_OK;
}

static luminal_error prepare(luminal_model* m, const char* path, int threads) {
  const luminal_plan* plan = m->plan;
  const char* missing = plan->missing_instructions ? plan->missing_instructions() : NULL;
  if (missing)
    return fail(m, LUMINAL_ERROR_PROCESSOR, "%s was compiled for a processor with %s, which this one lacks",
                plan->name, missing);
  if (threads < 1 || threads > 1024)
    return fail(m, LUMINAL_ERROR_ARGUMENT, "%d threads; 1 to 1024 are possible", threads);
  const luminal_error opened = open_file(m, path);
  if (opened != LUMINAL_OK) return opened;
#define LUMINAL_ARRAY(count, type) (type*)calloc((size_t)(count) + 1, sizeof(type))
  m->symbols = LUMINAL_ARRAY(plan->symbol_count, int64_t);
  m->sizes = LUMINAL_ARRAY(plan->size_count, int64_t);
  m->addresses = LUMINAL_ARRAY(plan->slot_count, char*);
  m->owned = LUMINAL_ARRAY(plan->slot_count, char*);
  m->buffers = LUMINAL_ARRAY(plan->most_buffers, void*);
  m->values = LUMINAL_ARRAY(plan->most_symbols, int64_t);
  m->arena = map_memory(plan->arena_bytes);
  m->scratch_bytes = plan->shared_bytes + plan->local_stride * threads;
  m->scratch = map_memory(m->scratch_bytes);
  m->bound = LUMINAL_ARRAY(plan->input_count, int64_t);
#undef LUMINAL_ARRAY
  if (!m->symbols || !m->sizes || !m->bound || !m->addresses || !m->owned || !m->buffers || !m->values ||
      !m->arena || !m->scratch)
    return fail(m, LUMINAL_ERROR_MEMORY, "there is no memory for %lld bytes", (long long)plan->arena_bytes);
  for (int i = 0; i < plan->symbol_count; i++) m->symbols[i] = plan->symbols[i].low;
  for (int i = 0; i < plan->input_count; i++) m->bound[i] = -1;
  for (int i = 0; i < plan->slot_count; i++) {
    const luminal_plan_slot* slot = &plan->slots[i];
    if (slot->kind == LUMINAL_SLOT_FILE) {
      m->addresses[i] = slot->offset >= 0 ? (char*)(uintptr_t)m->file + slot->offset : NULL; // only read
    } else if (slot->kind != LUMINAL_SLOT_ARENA) {
      m->owned[i] = m->addresses[i] = map_memory(slot->max_bytes);
      if (!m->owned[i])
        return fail(m, LUMINAL_ERROR_MEMORY, "%s: there is no memory for %lld bytes", slot->name,
                    (long long)slot->max_bytes);
    }
  }
  if (!pool_start(&m->workers, threads))
    return fail(m, LUMINAL_ERROR_THREADS, "%d threads cannot be made", threads);
  const luminal_error loaded = load(m);
  m->stale = 1; // the dimensions together are checked by the first run
  return loaded;
}

luminal_error luminal_open(const luminal_plan* plan, const char* weights_path, int threads,
                           luminal_model** model, char* message, size_t message_bytes) {
  *model = NULL;
  if (message && message_bytes) message[0] = 0;
  luminal_model* m = NULL;
  if (posix_memalign((void**)&m, 64, (sizeof(luminal_model) + 63) / 64 * 64) != 0)
    return LUMINAL_ERROR_MEMORY;
  memset(m, 0, sizeof *m);
  m->plan = plan;
  const luminal_error error = prepare(m, weights_path, threads);
  if (error == LUMINAL_OK) {
    *model = m;
    return LUMINAL_OK;
  }
  if (message && message_bytes) snprintf(message, message_bytes, "%s", m->message);
  luminal_close(m);
  return error;
}

void luminal_close(luminal_model* m) {
  if (!m) return;
  const luminal_plan* plan = m->plan;
  if (m->workers.size > 0) pool_stop(&m->workers);
  if (m->owned)
    for (int i = 0; i < plan->slot_count; i++) unmap_memory(m->owned[i], plan->slots[i].max_bytes);
  unmap_memory(m->arena, plan->arena_bytes);
  unmap_memory(m->scratch, m->scratch_bytes);
  unmap_memory(m->file, (int64_t)plan->file_bytes);
  free(m->symbols);
  free(m->sizes);
  free(m->addresses);
  free(m->owned);
  free(m->bound);
  free(m->buffers);
  free(m->values);
  free(m);
}

const char* luminal_error_name(luminal_error error) {
  static const char* const names[] = {"ok",       "file",       "memory", "processor",
                                      "argument", "dimensions", "index",  "threads"};
  return (unsigned)error < sizeof names / sizeof *names ? names[error] : "unknown";
}
const char* luminal_message(const luminal_model* m) { return m ? m->message : ""; }

luminal_error luminal_set_dim(luminal_model* m, int dim, int64_t size) {
  if (dim < 0 || dim >= m->plan->dims)
    return fail(m, LUMINAL_ERROR_ARGUMENT, "there is no dimension %d; %s has %d", dim, m->plan->name,
                m->plan->dims);
  const luminal_plan_symbol* s = &m->plan->symbols[dim];
  if (size < s->low || size > s->high || size % s->multiple != 0)
    return fail(m, LUMINAL_ERROR_ARGUMENT,
                "dimension %s is declared %lld..%lld (a multiple of %lld), %lld was given", s->name,
                (long long)s->low, (long long)s->high, (long long)s->multiple, (long long)size);
  if (m->symbols[dim] != size) m->stale = 1;
  m->symbols[dim] = size;
  return LUMINAL_OK;
}
int64_t luminal_dim(const luminal_model* m, int dim) {
  return dim >= 0 && dim < m->plan->dims ? m->symbols[dim] : -1;
}

static luminal_error view(luminal_model* m, const char* what, int number, int count, const int* slots,
                          luminal_value* value) {
  if (number < 0 || number >= count)
    return fail(m, LUMINAL_ERROR_ARGUMENT, "there is no %s %d; %s has %d", what, number, m->plan->name,
                count);
  if (m->stale) {
    const luminal_error error = refresh(m);
    if (error != LUMINAL_OK) return error;
  }
  const luminal_plan_slot* s = &m->plan->slots[slots[number]];
  value->name = s->name;
  value->dtype = (luminal_dtype)s->dtype;
  value->rank = s->rank;
  value->shape = m->sizes + s->sizes;
  value->data = m->addresses[slots[number]];
  value->bytes = m->sizes[s->sizes + s->rank];
  return LUMINAL_OK;
}

luminal_error luminal_input(luminal_model* m, int input, luminal_value* value) {
  return view(m, "input", input, m->plan->input_count, m->plan->inputs, value);
}
luminal_error luminal_output(luminal_model* m, int output, luminal_value* value) {
  const luminal_error error = view(m, "output", output, m->plan->output_count, m->plan->outputs, value);
  if (error == LUMINAL_OK) value->name = m->plan->output_names[output];
  return error;
}
luminal_error luminal_state(luminal_model* m, int state, luminal_value* value) {
  return view(m, "state", state, m->plan->state_count, m->plan->states, value);
}
luminal_error luminal_bind_input(luminal_model* m, int input, const void* data, int64_t bytes) {
  luminal_value value;
  const luminal_error error = luminal_input(m, input, &value);
  if (error != LUMINAL_OK) return error;
  if (!data || bytes < value.bytes)
    return fail(m, LUMINAL_ERROR_ARGUMENT, "input %s takes %lld bytes, %lld were given", value.name,
                (long long)value.bytes, (long long)bytes);
  m->addresses[m->plan->inputs[input]] = (char*)(uintptr_t)data; // inputs are only read
  m->bound[input] = bytes;
  return LUMINAL_OK;
}
void luminal_reset_states(luminal_model* m) {
  for (int i = 0; i < m->plan->state_count; i++) {
    const int slot = m->plan->states[i];
    memset(m->addresses[slot], 0, (size_t)m->plan->slots[slot].max_bytes);
  }
}
luminal_error luminal_run(luminal_model* m) {
  if (m->stale) {
    const luminal_error error = refresh(m);
    if (error != LUMINAL_OK) return error;
  }
  for (int i = 0; i < m->plan->input_count; i++) // the dimensions may have grown since
    if (m->bound[i] >= 0 && m->bound[i] < slot_bytes(m, m->plan->inputs[i]))
      return fail(m, LUMINAL_ERROR_ARGUMENT, "input %s takes %lld bytes now, %lld were bound",
                  m->plan->slots[m->plan->inputs[i]].name, (long long)slot_bytes(m, m->plan->inputs[i]),
                  (long long)m->bound[i]);
  return run_steps(m, m->plan->run_steps, m->plan->run_step_count);
}
