// bench/peers/llama_peer.cpp -- llama.cpp as a peer that a benchmark talks to: loads one model,
// then measures or computes what is asked, line by line.
//
// llama_peer MODEL.gguf CONTEXT   answers "ready", or "absent REASON", then for each line:
//   pp N THREADS        seconds of one prompt of N tokens from an empty context
//   tg N PAST THREADS   seconds of N tokens one by one after PAST others, as llama-bench does it: no sampling
//   logits T,T,...      the logits after these tokens, as hexadecimal floats
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <llama.h>
#include <sstream>
#include <string>
#include <vector>

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void absent(const std::string& why) {
  std::cout << "absent " << why << std::endl;
  std::exit(0);
}

void decode(llama_context* context, std::vector<llama_token> tokens) {
  if (llama_decode(context, llama_batch_get_one(tokens.data(), int32_t(tokens.size()))) != 0)
    absent("llama_decode failed");
  llama_synchronize(context);
}

std::vector<llama_token> some_tokens(int count, int vocabulary) {
  std::vector<llama_token> tokens;
  uint32_t state = 1;
  for (int i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(llama_token((state >> 8) % uint32_t(vocabulary)));
  }
  return tokens;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: llama_peer MODEL.gguf CONTEXT\n");
    return 2;
  }
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!model) absent("llama.cpp cannot load the model");
  llama_context_params params = llama_context_default_params();
  params.n_ctx = uint32_t(std::atoi(argv[2]));
  params.n_batch = 2048; // the values of llama-bench
  params.n_ubatch = 512;
  params.no_perf = true;
  llama_context* context = llama_init_from_model(model, params);
  if (!context) absent("llama.cpp cannot make a context");
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::cout << "ready" << std::endl;

  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    llama_memory_clear(llama_get_memory(context), false);
    if (what == "pp" || what == "tg") {
      int count = 0, past = 0, threads = 1;
      words >> count;
      if (what == "tg") words >> past;
      words >> threads;
      llama_set_n_threads(context, threads, threads);
      if (past > 0) decode(context, some_tokens(past, vocabulary));
      const std::vector<llama_token> tokens = some_tokens(count, vocabulary);
      const double start = now();
      if (what == "pp")
        decode(context, tokens);
      else
        for (llama_token token : tokens) decode(context, {token});
      std::printf("%.9g\n", now() - start);
    } else if (what == "logits") {
      std::vector<llama_token> tokens;
      std::string list, token;
      words >> list;
      for (std::istringstream parts(list); std::getline(parts, token, ',');)
        tokens.push_back(std::atoi(token.c_str()));
      decode(context, tokens);
      const float* logits = llama_get_logits_ith(context, -1);
      for (int i = 0; i < vocabulary; i++) std::printf(i ? " %a" : "%a", double(logits[i]));
      std::printf("\n");
    } else {
      std::printf("unknown %s\n", what.c_str());
    }
    std::fflush(stdout);
  }
  llama_free(context);
  llama_model_free(model);
}
