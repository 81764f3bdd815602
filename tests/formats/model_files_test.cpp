// formats/model_files_test.cpp -- recognising models by content, and refusing what is none.
#include "formats/gguf.h"
#include "formats/model_files.h"
#include "formats/safetensors.h"
#include "formats/util.h"
#include <filesystem>
#include <gmock/gmock.h>
#include <sys/stat.h>

namespace luminal::model_files_test {
namespace {

using namespace luminal::testing_formats;
using ::testing::HasSubstr;

const std::string config =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":4,"hidden_size":8,"intermediate_size":16,
  "num_hidden_layers":1,"num_attention_heads":2,"tie_word_embeddings":false,"eos_token_id":2})";
const std::string tokenizer =
    R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"c":3},"merges":["a b"]},"decoder":{"type":"Fuse"}})";
const std::string data(4 * 8 * 4, '\0');

TensorView embedding() {
  return {"model.embed_tokens.weight", StorageType::f32, {4, 8}, detail::as_bytes(data)};
}
TensorView head() { return {"lm_head.weight", StorageType::f32, {4, 8}, detail::as_bytes(data)}; }

void save(const std::string& path, std::vector<TensorView> tensors) {
  ASSERT_TRUE(save_safetensors(path, tensors, {{"format", "pt"}}));
}

TEST(ModelFiles, OpensAHuggingFaceFolder) {
  const TemporaryFolder folder;
  save(folder.file("model.safetensors"), {embedding()});
  put_file(folder.file("config.json"), config);
  put_file(folder.file("tokenizer.json"), tokenizer);
  put_file(folder.file("generation_config.json"), R"({"eos_token_id":[2,3]})");
  put_file(
      folder.file("tokenizer_config.json"),
      R"({"eos_token":"c","chat_template":[{"name":"rag","template":"x"},{"name":"default","template":"{{ y }}"}]})");
  for (const std::string& path : {folder.path(), folder.path() + "/"}) {
    const auto model = open_model(path);
    ASSERT_TRUE(model) << model.error();
    EXPECT_EQ(model->kind, ModelFileKind::hf_folder);
    EXPECT_EQ(model->architecture, "llama");
    EXPECT_EQ(model->require_config().hidden_size, 8);
    EXPECT_TRUE(model->config->tied_embeddings) << "there is no head in the file";
    EXPECT_EQ(model->config->eos_tokens, (std::vector<int32_t>{2, 3}));
    EXPECT_EQ(model->require_tokenizer().eos(), (std::vector<int32_t>{3, 2}));
    EXPECT_TRUE(model->is_end(2) && model->is_end(3));
    EXPECT_FALSE(model->is_end(0) || model->is_end(-1) || model->is_end(4));
    EXPECT_EQ(model->chat_template, "{{ y }}");
    EXPECT_EQ(model->tensor("model.embed_tokens.weight").elements(), 32);
    EXPECT_EQ(model->find("absent"), nullptr);
    EXPECT_EQ(model->tensor_bytes(), 128U);
    EXPECT_EQ(model->parameters(), 32);
    EXPECT_EQ(model->metadata.front().first, "format");
    try {
      (void)model->tensor("model.embed_tokens.bias");
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("no tensor \"model.embed_tokens.bias\" among its 1; the nearest is "
                                          "\"model.embed_tokens.weight\""));
    }
  }
  put_file(folder.file("chat_template.jinja"), "from the file");
  EXPECT_EQ(open_model(folder.path())->chat_template, "from the file");
  save(folder.file("model.safetensors"), {embedding(), head()});
  EXPECT_FALSE(open_model(folder.path())->config->tied_embeddings);
}

TEST(ModelFiles, OpensShards) {
  const TemporaryFolder folder;
  save(folder.file("model-00001-of-00002.safetensors"), {embedding()});
  save(folder.file("model-00002-of-00002.safetensors"), {head()});
  put_file(folder.file("config.json"), config);
  const auto without = open_model(folder.path());
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error(),
              HasSubstr("2 safetensors files and no model.safetensors.index.json that joins them"));
  put_file(
      folder.file("model.safetensors.index.json"),
      R"({"weight_map":{"model.embed_tokens.weight":"model-00001-of-00002.safetensors","lm_head.weight":"model-00002-of-00002.safetensors"}})");
  for (const std::string& path : {folder.path(), folder.file("model.safetensors.index.json")}) {
    const auto model = open_model(path);
    ASSERT_TRUE(model) << model.error();
    EXPECT_EQ(model->tensors.size(), 2U);
    EXPECT_EQ(model->files.size(), 2U);
    EXPECT_EQ(model->tensor("lm_head.weight").file_index, 1U);
    EXPECT_FALSE(model->tokenizer.has_value());
    EXPECT_THROW((void)model->require_tokenizer(), Error);
    EXPECT_TRUE(model->is_end(2)) << "the configuration alone says so";
    EXPECT_FALSE(model->is_end(3));
  }
  // Model after model, whatever the current folder.
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_TRUE(open_model("model.safetensors.index.json"));
  EXPECT_TRUE(open_model("."));
  EXPECT_TRUE(open_model("model-00001-of-00002.safetensors"));
  std::filesystem::current_path(here);
}

TEST(ModelFiles, OpensALoneFileWithItsCompanions) {
  const TemporaryFolder folder;
  const std::string path = folder.file("tiny.hf.safetensors");
  save(path, {embedding()});
  auto model = open_model(path);
  ASSERT_TRUE(model) << model.error();
  EXPECT_EQ(model->kind, ModelFileKind::safetensors);
  EXPECT_FALSE(model->config.has_value());
  EXPECT_THAT(model->config_error, HasSubstr("no configuration beside it (NAME.config.json or config.json)"));
  EXPECT_THROW((void)model->require_config(), Error);
  for (const char* name : {"config.json", "tiny.config.json", "tiny.hf.config.json"}) {
    put_file(folder.file(name), config);
    model = open_model(path);
    ASSERT_TRUE(model) << model.error();
    EXPECT_TRUE(model->config.has_value()) << name;
    EXPECT_EQ(model->architecture, "llama");
  }
  put_file(folder.file("tiny.hf.config.json"), "{\"model_type\":\"bert\"}");
  model = open_model(path);
  ASSERT_TRUE(model)
      << "a configuration that no language model has does not keep the file from being looked at";
  EXPECT_EQ(model->architecture, "bert");
  EXPECT_THAT(model->config_error, HasSubstr("tiny.hf.config.json: offset"));
  put_file(folder.file("tokenizer.json"), "{}");
  model = open_model(path);
  ASSERT_TRUE(model);
  EXPECT_THAT(model->tokenizer_error, HasSubstr("tokenizer.json: offset 1: no \"model\""));
}

TEST(ModelFiles, OpensTheStoriesModelInBothForms) {
  LUMINAL_NEEDS_DATA(gguf, "llm/stories260K.gguf");
  LUMINAL_NEEDS_DATA(tensors, "llm/stories260K.hf.safetensors");
  const auto a = open_model(gguf);
  ASSERT_TRUE(a) << a.error();
  EXPECT_EQ(a->kind, ModelFileKind::gguf);
  EXPECT_EQ(a->architecture, "llama");
  EXPECT_TRUE(a->require_config().rope_interleaved);
  EXPECT_EQ(a->require_tokenizer().bos(), 1);
  EXPECT_EQ(a->tensor("blk.4.attn_q.weight").describe(), "F32 [64, 64]");
  EXPECT_EQ(a->metadata.size(), 19U);
  const auto b = open_model(tensors);
  ASSERT_TRUE(b) << b.error();
  EXPECT_EQ(b->require_config().num_kv_heads, 4);
  EXPECT_TRUE(b->config->tied_embeddings);
  EXPECT_EQ(detail::as_text(a->tensor("token_embd.weight").bytes),
            detail::as_text(b->tensor("model.embed_tokens.weight").bytes));
}

TEST(ModelFiles, RefusesWhatIsNoModelInOneLine) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, std::string_view content, const char* expected) {
    SCOPED_TRACE(name);
    const std::string path = folder.file(name);
    put_file(path, content);
    const auto model = open_model(path);
    ASSERT_FALSE(model);
    EXPECT_THAT(model.error(), HasSubstr(expected));
    expect_clear_line(model.error(), path);
  };
  refused("empty", "", "offset 0: an empty file, expected GGUF or safetensors");
  refused("model.pt", "PK\x03\x04 rest of a zip archive", "torch.load(");
  refused("model.bin", "\x80\x02}q\x01.", "torch.load(");
  refused("old.pth",
          "\x80\x02\x8a\x0al\xfc\x9c"
          "F",
          "torch.load(");
  refused("model.onnx", "\x08\x07\x12\x07pytorch",
          "an ONNX file, which `luminal eval` runs; a GGUF file, a safetensors file or a Hugging Face folder "
          "is expected");
  refused("noname", "\x08\x09\x12\x07pytorch",
          "an ONNX file, which `luminal eval` runs; a GGUF file, a safetensors file or a Hugging Face folder "
          "is expected");
  refused("text", "hello there",
          "offset 0: begins with \"hello th\", expected a GGUF file, a safetensors file or a Hugging Face "
          "folder");
  refused("ggml.bin", "tjgg\3\0\0\0xxxxxxxxx",
          "offset 0: magic \"tjgg\" of the GGML formats before GGUF; convert the file to GGUF");
  refused("cut.gguf", "GGUF",
          "offset 4: the version takes 4 bytes, expected at most the 0 that are left in the file");
  refused("wrong.gguf", "nothing", "offset 0: magic \"noth\", expected \"GGUF\"");
  refused("cut.safetensors", "123",
          "offset 0: 3 bytes in the file, expected at least 8 (the header's length)");
  refused("bad.safetensors", std::string("\x05\0\0\0\0\0\0\0{\"a\":", 13), "not JSON");

  const auto path_refused = [&](const std::string& path, const char* expected) {
    SCOPED_TRACE(path);
    const auto model = open_model(path);
    ASSERT_FALSE(model);
    EXPECT_THAT(model.error(), HasSubstr(expected));
    expect_clear_line(model.error(), path);
  };
  path_refused(folder.file("absent"), "no such file or folder");
  path_refused("/dev/null", "is not a regular file");
  path_refused(folder.path(), "a folder with 2 GGUF files, name one of them: cut.gguf wrong.gguf");
  const auto sub = [&](const char* name) {
    std::filesystem::create_directory(folder.file(name));
    return folder.file(name);
  };
  path_refused(sub("nothing"), "an empty folder, expected config.json and *.safetensors");
  put_file(sub("only-config") + "/config.json", config);
  path_refused(folder.file("only-config"),
               "a folder with config.json and without weights, expected *.safetensors");
  put_file(folder.file("only-config") + "/pytorch_model.bin", "x");
  path_refused(folder.file("only-config"), "only PyTorch weights (pytorch_model.bin)");
  put_file(sub("two") + "/a.gguf", "GGUF");
  put_file(folder.file("two") + "/b.gguf", "GGUF");
  path_refused(folder.file("two"), "a folder with 2 GGUF files, name one of them: a.gguf b.gguf");
  put_file(sub("papers") + "/readme.txt", "x");
  path_refused(folder.file("papers"),
               "a folder without config.json, expected a Hugging Face model (config.json and *.safetensors)");
  std::filesystem::create_directory(folder.file("x.safetensors"));
  path_refused(folder.file("x.safetensors"), "an empty folder, expected config.json and *.safetensors");
  const std::string fifo = folder.file("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  path_refused(fifo, "is not a regular file");
}

TEST(ModelFiles, OpensAGgufInParts) {
  const TemporaryFolder folder;
  const auto part = [&](int number, int count, const char* tensor, int64_t tensors = 2, int named_as = -1) {
    std::vector<std::pair<std::string, GgufValue>> metadata = {
        {"split.no", {GgufType::u16, uint64_t(number)}},
        {"split.count", {GgufType::u16, uint64_t(count)}},
        {"split.tensors.count", GgufValue::of_i32(static_cast<int32_t>(tensors))}};
    if (number == 0) metadata.emplace_back("general.architecture", GgufValue::of_string("llama"));
    const TensorView view{tensor, StorageType::f32, {4, 8}, detail::as_bytes(data)};
    const std::string path =
        folder.file(fmt::format("m-{:05}-of-{:05}.gguf", (named_as < 0 ? number : named_as) + 1, count));
    ASSERT_TRUE(save_gguf(path, metadata, {&view, 1}));
  };
  part(0, 2, "a");
  const auto refused = [&](const std::string& path, const char* expected) {
    const auto model = open_model(path);
    ASSERT_FALSE(model);
    EXPECT_THAT(model.error(), HasSubstr(expected));
    expect_clear_line(model.error(), folder.path());
  };
  const std::string first = folder.file("m-00001-of-00002.gguf"),
                    second = folder.file("m-00002-of-00002.gguf");
  refused(first, "m-00002-of-00002.gguf: ");
  part(1, 2, "b");
  for (const std::string& path : {first, second, folder.path()}) {
    const auto model = open_model(path);
    ASSERT_TRUE(model) << model.error();
    EXPECT_EQ(model->architecture, "llama");
    EXPECT_EQ(model->files.size(), 2U);
    EXPECT_EQ(model->tensor("a").file_index, 0U);
    EXPECT_EQ(model->tensor("b").file_index, 1U);
    EXPECT_EQ(detail::as_text(model->tensor("b").bytes), data);
  }
  part(1, 2, "a");
  refused(first, "offset 160: tensor \"a\" is also in a part before");
  part(0, 2, "c", 2, 1);
  refused(first, "part 1 of 2 by its metadata, expected part 2 of 2");
  part(1, 2, "b");
  part(0, 2, "a", 3);
  refused(first, "2 tensors in 2 parts, expected 3");
  std::filesystem::rename(first, folder.file("other.gguf"));
  refused(folder.file("other.gguf"),
          "part 1 of 2 of a model, expected a name that ends in \"-00001-of-00002.gguf\"");
}

TEST(ModelFiles, AFolderWithOneGgufIsThatFile) {
  const TemporaryFolder folder;
  ASSERT_TRUE(save_gguf(folder.file("m.gguf"), {}, {}));
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model) << model.error();
  EXPECT_EQ(model->kind, ModelFileKind::gguf);
  EXPECT_THAT(model->config_error,
              HasSubstr("no metadata \"general.architecture\", expected the name of a model family"));
  EXPECT_THAT(model->tokenizer_error,
              HasSubstr("no tokenizer in the file (metadata \"tokenizer.ggml.model\")"));
}

} // namespace
} // namespace luminal::model_files_test
