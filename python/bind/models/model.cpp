// python/bind/models/model.cpp -- a language model that is ready to run, with streaming.
#include "arrays.h"
#include "bind.h"
#include <cstring>

namespace luminal::python {
namespace {

/// The model with the graph that its work keeps busy.
struct Model {
  LanguageModel model;
  std::shared_ptr<GraphState> graph;
};

void run(const char* operation, Model& m, std::source_location where, const std::function<void()>& work) {
  run_released(operation, m.graph, where, work);
}

std::string generate(Model& m, const std::string& prompt, int64_t count, const nb::object& on_text) {
  const auto where = here();
  std::string text;
  bool refused = false;
  run("generate", m, where, [&] {
    text = m.model.generate(
        prompt, count,
        [&](std::string_view piece) {
          const nb::gil_scoped_acquire lock;
          if (PyErr_CheckSignals() != 0) { // Ctrl-C between two tokens
            keep_exception(nb::python_error());
            return false;
          }
          if (on_text.is_none()) return true;
          try {
            refused = on_text(std::string(piece)).is(Py_False);
            return !refused;
          } catch (nb::python_error& error) {
            keep_exception(error);
            return false;
          }
        },
        where);
  });
  return text;
}

LanguageModelOptions options_from(int64_t context, int64_t chunk, Type cache_type,
                                  const std::string& activations, double temperature, int top_k, double top_p,
                                  double min_p, double repeat_penalty, int repeat_last,
                                  double frequency_penalty, double presence_penalty, uint64_t seed,
                                  const nb::dict& compile, std::source_location where) {
  return {.context = context,
          .chunk = chunk,
          .cache_type = cache_type,
          .activations = activations,
          .sampler = {temperature, top_k, top_p, min_p, repeat_penalty, repeat_last, frequency_penalty,
                      presence_penalty, seed},
          .compile = options_of(compile, where)};
}

} // namespace

void bind_model(nb::module_& m) {
  nb::class_<Model> model(m, "LanguageModel",
                          "A GGUF file, a safetensors file or a Hugging Face folder with a Llama in it: the "
                          "model, its key-value cache and "
                          "its sampler. For one thread at a time.");
  model.def(
      "__init__",
      [](Model* self, nb::handle path, int64_t context, int64_t chunk, Type cache_type,
         const std::string& activations, double temperature, int top_k, double top_p, double min_p,
         double repeat_penalty, int repeat_last, double frequency_penalty, double presence_penalty,
         uint64_t seed, const nb::dict& compile) {
        const auto where = here();
        const auto file = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
        const auto options = options_from(context, chunk, cache_type, activations, temperature, top_k, top_p,
                                          min_p, repeat_penalty, repeat_last, frequency_penalty,
                                          presence_penalty, seed, compile, where);
        std::unique_ptr<LanguageModel> made;
        run_released("LanguageModel", Graph().state(), where,
                     [&] { made = std::make_unique<LanguageModel>(file, options, where); });
        auto graph = made->graph().state();
        new (self) Model{std::move(*made), std::move(graph)};
      },
      nb::arg("path"), nb::kw_only(), nb::arg("context") = 0, nb::arg("chunk") = 128,
      nb::arg("cache_type") = "f32", nb::arg("activations") = "exact", nb::arg("temperature") = 0.8,
      nb::arg("top_k") = 40, nb::arg("top_p") = 0.95, nb::arg("min_p") = 0.05,
      nb::arg("repeat_penalty") = 1.0, nb::arg("repeat_last") = 64, nb::arg("frequency_penalty") = 0.0,
      nb::arg("presence_penalty") = 0.0, nb::arg("seed") = 0, nb::arg("compile") = nb::dict(),
      nb::sig("def __init__(self, path: str | os.PathLike[str], *, context: int = 0, chunk: int = 128, "
              "cache_type: luminal.typing.DTypeLike = 'f32', "
              "activations: str = 'exact', temperature: float = 0.8, top_k: int = 40, top_p: float = 0.95, "
              "min_p: float = 0.05, repeat_penalty: float = 1.0, "
              "repeat_last: int = 64, frequency_penalty: float = 0.0, presence_penalty: float = 0.0, seed: "
              "int = 0, compile: dict[str, typing.Any] = {}) -> None"),
      "Maps the files, makes the graph and compiles it. Sampling: llama.cpp's options and defaults; "
      "temperature=0 takes the likeliest token. compile: options of compile.");
  model.def(
      "encode",
      [](const Model& self, const std::string& text, bool parse_special) {
        return self.model.encode(text, parse_special, here());
      },
      nb::arg("text"), nb::arg("parse_special") = false, "Token ids of a text.");
  model.def(
      "decode",
      [](const Model& self, const std::vector<int32_t>& tokens) {
        const std::string text = self.model.decode(tokens, here());
        return nb::str(text.data(), text.size());
      },
      nb::arg("tokens"), "The text of tokens; special tokens give none.");
  model.def(
      "is_end", [](const Model& self, int32_t token) { return self.model.is_end(token); }, nb::arg("token"),
      "Of a text or a turn.");
  model.def(
      "step",
      [](Model& self, const std::vector<int32_t>& tokens) {
        const auto where = here();
        std::span<const float> logits;
        run("step", self, where, [&] { logits = self.model.step(tokens, where); });
        std::vector<std::byte> bytes(logits.size_bytes());
        std::memcpy(bytes.data(), logits.data(), bytes.size());
        return numpy_array(DType::f32, {int64_t(logits.size())}, std::move(bytes));
      },
      nb::arg("tokens"),
      nb::sig("def step(self, tokens: collections.abc.Sequence[int]) -> luminal.typing.NumpyArray"),
      "Appends tokens to the text and gives the logits of what follows the last one.");
  model.def(
      "sample", [](Model& self) { return self.model.sample(here()); },
      "The next token by the logits of the last step. It is not appended: the next step does that.");
  model.def(
      "reset", [](Model& self) { self.model.reset(); },
      "Forgets the text, and the sampler starts from its seed again.");
  model.def("generate", &generate, nb::arg("prompt"), nb::arg("count") = -1, nb::arg("on_text") = nb::none(),
            nb::sig("def generate(self, prompt: str, count: int = -1, on_text: "
                    "collections.abc.Callable[[str], object] | None = None) -> str"),
            "Continues the text so far with the prompt and up to `count` tokens (-1: until the model ends "
            "it). on_text(piece) is called with whole characters "
            "and returns False to stop. Gives the new text.");
  model.def_prop_ro("vocabulary", [](const Model& self) { return self.model.vocabulary(); });
  model.def_prop_ro("context", [](const Model& self) { return self.model.context(); });
  model.def_prop_ro("position", [](const Model& self) { return self.model.position(); }, "Tokens so far.");
  model.def_prop_ro("name", [](const Model& self) { return self.model.name(); }, "As the file calls it.");
  model.def_prop_ro("graph", [](Model& self) { return Graph(self.graph); }, "Its weights and its report.");
  model.def(
      "__reduce__",
      [](const Model&) -> nb::object {
        PyErr_SetString(PyExc_TypeError, "a LanguageModel cannot be pickled: make it from its file again");
        throw nb::python_error();
      },
      nb::sig("def __reduce__(self) -> typing.NoReturn"));
}

} // namespace luminal::python
