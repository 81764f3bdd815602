// tests/tree/idioms.cpp -- options with some of their members named, as the documents write them:
// must compile with -Wall -Wextra -Werror.
#include <luminal/luminal.h>

using namespace luminal;

void options_of_graphs(Graph& g, const Tensor& x) {
  g.compile({});
  g.compile({.threads = 1});
  g.compile({.cache = false, .weights_id = "model.gguf 2026"});
  g.compile({.max_memory = int64_t(1) << 30});
  g.compile({.sizes = {{"batch", 8}}});
  g.compile({.sizes = {{"batch", {1, 64}}, {"n", 512}}});
  g.compile({.strict = true, .stop = [] { return false; }});
  g.compile({.search = {.mode = SearchMode::budget, .seconds = 0.2}});
  g.compile({.search = {.mode = SearchMode::optimal, .filter = "k0", .confirm = false}});
  g.compile({.passes = passes::none()});
  CompileOptions options;
  options.sizes["batch"] = 8;
  options.sizes["batch"] = {1, 64};
  options.sizes = {{"batch", 1}};
  options.search = {.mode = SearchMode::budget, .seconds = 60};
  (void)to_string(x, {.edge_items = 5});
  (void)diff(x, "x.npy", {.relative = 1e-3});
  (void)compare(x, "x.npz", {.relative = 1e-3, .absolute = 1e-6});
  load(g, "w.gguf", {.strict = false});
  load(g, "w.gguf", {.convert = true, .name_in_file = [](const std::string& name) { return name; }});
  save(g, "w.safetensors", {.metadata = {{"format", "pt"}}});
  save(g, "w.safetensors", {.states = true});
}

void options_of_operations(const Tensor& x, const Tensor& w) {
  (void)scaled_dot_product_attention(x, x, x, {.causal = true});
  (void)conv2d(x, w, {}, {.stride = 2, .padding = 1});
  (void)conv2d(x, w, {}, {.groups = 4});
  (void)conv_transpose(x, w, {}, {.stride = 2});
  (void)max_pool(x, 2, {.stride = 1});
  (void)cumsum(x, 0, {.exclusive = true});
  (void)x.slice({{.start = 1}, {.end = 3}, {.step = 2}});
  (void)x.squeeze({}), (void)x.squeeze({0}), (void)x.squeeze({0, 1});
}

void options_of_models(const std::vector<float>& values) {
  (void)quantize_weight(values, 64, 128, {.bits = 4, .group = 32});
  (void)quantize_weight(values, 64, 128, {.symmetric = false});
  LanguageModel model("model.gguf", {.context = 2048});
  LanguageModel other("model.gguf", {.activations = "q8", .sampler = {.temperature = 0, .seed = 7}});
  LanguageModel third("model.gguf", {.cache_type = DType::f16, .compile = {.threads = 2}});
}

void rows_of_users() {
  register_operation({.name = "squash",
                      .f64 = [](const double* x) { return x[0]; },
                      .definition = "a / (1 + abs(a))",
                      .derivative = {"1"}});
  register_operation({.name = "twice", .arity = 1, .f64 = [](const double* x) { return 2 * x[0]; }});
}
