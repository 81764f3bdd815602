// models/lora.cpp -- which weight an adapter's tensor changes, and the changed weights.
#include "models/lora.h"
#include "base/pages.h"
#include "formats/lora_file.h"
#include "formats/quants.h"
#include "luminal/error.h"
#include "models/convert_plan.h"
#include "models/decoder_weights.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <thread>

namespace luminal::models {
namespace {

/// Where a weight is that an adapter names.
struct Target {
  std::string tensor; ///< of the model
  Part part = Part::embedding;
  int64_t expert = -1;     ///< its place along the first axis of the tensor
  bool transposed = false; ///< stored as [columns, rows]
  bool new_head = false;   ///< the model has none: the table of embeddings with a name of its own
};
using Key = std::pair<std::string, int64_t>; // name with its ending, expert of a tensor of all
using Targets = std::map<Key, Target>;

bool is_gguf(const ModelFile& file) { return file.kind == ModelFileKind::gguf; }
/// With the rows of queries and keys in the order of llama.cpp's Llama.
bool has_rotary_pairs(const ModelFile& file) {
  return is_gguf(file) && file.require_config().rope_interleaved;
}

std::string prefix_of(const ModelFile& file) {
  const ModelConfig& config = file.require_config();
  const bool bare = file.find(part_name(config, false, Part::embedding, -1) + ".weight") != nullptr;
  if (is_gguf(file) || bare) return "";
  return config.architecture == "gpt2" ? "transformer." : "model.";
}

/// All weights of the model by the names that an adapter of this format has for them.
Targets targets_of(const ModelFile& file, bool gguf_names) {
  const ModelConfig& config = file.require_config();
  const bool gguf = is_gguf(file), gpt2 = config.architecture == "gpt2";
  ModelConfig named = config;
  if (gguf && !gguf_names) named.architecture = hugging_face_type(config);
  const std::string prefix = prefix_of(file);
  Targets targets;
  each_part(config, [&](Part part, int64_t layer, const std::string& kind) {
    const std::string base = part_name(config, gguf, part, layer),
                      name = part_name(named, gguf_names, part, layer);
    if (base.empty() || name.empty()) return;
    // In GGUF a tensor that is gate and up has the name of the second.
    const bool fused =
        config.gated && file.find(part_name(config, true, Part::gate, layer) + ".weight") == nullptr;
    if (gguf && (part == Part::gate_up || part == Part::up) && (part == Part::gate_up) != fused) return;
    const std::string tensor = (part == Part::head ? "" : prefix) + base + kind;
    const bool transposed = gpt2 && !gguf && is_transposed(part) && kind == ".weight";
    for (int64_t e = 0; e < (is_experts(part) ? config.num_experts : 1); e++) {
      const bool experts = is_experts(part);
      Target target{tensor, part, experts && gguf ? e : -1, transposed};
      if (experts && !gguf) target.tensor = fmt::format(fmt::runtime(tensor), e);
      if (file.find(target.tensor) == nullptr) {
        if (part != Part::head || kind != ".weight") continue;
        target.new_head = true;
      }
      const std::string key = name + kind;
      targets.emplace(experts && !gguf_names ? Key{fmt::format(fmt::runtime(key), e), -1}
                                             : Key{key, experts ? e : -1},
                      target);
    }
  });
  return targets;
}

/// What is to be done with one tensor of the model.
struct Change {
  struct Addition {
    const LoraPair* pair;
    Target target;
    double factor; ///< with the scale
    const LoraFile* lora;
  };
  struct Replacement {
    const LoraValue* value;
    Target target;
    double scale;
    const LoraFile* lora;
  };
  std::vector<Addition> additions;
  std::vector<Replacement> replacements;
};

class Adapters {
public:
  Adapters(ModelFile& file, ChangedBlocks blocks) : file_(file), blocks_(blocks) {}

  void add(const LoraChoice& choice) {
    auto opened = open_lora(choice.path);
    if (!opened) throw Error(opened.error());
    const auto lora = std::make_shared<const LoraFile>(std::move(*opened));
    loras_.push_back(lora);
    refuse_other_architecture(*lora);
    const Targets targets = targets_of(file_, lora->gguf);
    const auto target_of = [&](const std::string& name, int64_t expert, const TensorView& view) {
      const auto found = targets.find({name, expert});
      if (found == targets.end())
        throw Error(fmt::format("{}: tensor {} is for the weight {}, which {} does not have", lora->path,
                                view.name, name, file_.path));
      return found->second;
    };
    if (lora->pairs.empty() && lora->values.empty())
      throw Error(fmt::format("{}: an adapter without tensors", lora->path));
    for (const LoraPair& pair : lora->pairs) {
      const Target target = target_of(pair.name + ".weight", pair.expert, pair.a);
      refuse_other_shape(*lora, pair, target);
      if (choice.scale == 0) continue;
      changes_[target.tensor].additions.push_back({&pair, target, pair.factor * choice.scale, lora.get()});
    }
    for (const LoraValue& value : lora->values) {
      const Target target = target_of(value.name, -1, value.value);
      refuse_other_shape(*lora, value, target);
      if (choice.scale == 0) continue;
      changes_[target.tensor].replacements.push_back({&value, target, choice.scale, lora.get()});
    }
    file_changes_ += fmt::format("lora {} {}{} ", lora->identity, choice.scale,
                                 blocks_ == ChangedBlocks::beside ? "" : " unpacked");
  }

  void apply() {
    if (changes_.empty()) return;
    own_head();
    std::vector<TensorView*> changed;
    std::vector<StorageType> types;
    uint64_t bytes = 0;
    for (const auto& [name, change] : changes_) {
      TensorView& view = *std::ranges::find(file_.tensors, name, &TensorView::name);
      if (stays(view, change)) continue;
      changed.push_back(&view);
      types.push_back(new_type(view));
      bytes += rounded_up(storage_bytes(types.back(), view.shape).value());
    }
    std::map<std::string, std::shared_ptr<const LowRank>> low_rank;
    for (const auto& [name, change] : changes_)
      if (std::ranges::find(changed, name, &TensorView::name) == changed.end())
        low_rank.emplace(name, std::make_shared<const LowRank>(joined(change)));
    std::shared_ptr<std::byte> memory;
    if (bytes > 0) {
      auto place = unnamed_file(bytes);
      if (!place)
        throw Error(fmt::format("{}: no place for {} bytes of changed weights: {}", file_.path, bytes,
                                place.error()));
      memory = *place;
    }
    std::vector<std::span<const std::byte>> places;
    uint64_t offset = 0;
    for (size_t i = 0; i < changed.size(); i++) {
      const std::string made = changed_bytes(*changed[i], types[i]);
      std::memcpy(memory.get() + offset, made.data(), made.size());
      places.emplace_back(memory.get() + offset, made.size());
      drop_pages(places.back());
      drop_pages(changed[i]->bytes);
      offset += rounded_up(made.size());
    }
    for (size_t i = 0; i < changed.size(); i++) {
      changed[i]->type = types[i];
      changed[i]->bytes = places[i];
      changed[i]->file_index = in_no_file;
    }
    file_.changed_bytes = memory;
    file_.low_rank = std::move(low_rank);
    file_.changes += file_changes_;
  }

private:
  static constexpr uint32_t in_no_file = UINT32_MAX;
  static uint64_t rounded_up(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

  void refuse_other_architecture(const LoraFile& lora) const {
    const ModelConfig& config = file_.require_config();
    if (!lora.gguf) return;
    const std::string family = is_gguf(file_) ? config.architecture : std::string(gguf_family(config));
    if (lora.architecture != family)
      throw Error(fmt::format("{}: an adapter for the architecture {}, {} is {}", lora.path,
                              lora.architecture, file_.path, config.architecture));
  }

  /// The matrix [rows, columns], or vector, that is changed.
  std::vector<int64_t> shape_of(const Target& target) const {
    if (target.new_head) return file_.tensor(table_name()).shape;
    std::vector<int64_t> shape = file_.tensor(target.tensor).shape;
    if (target.expert >= 0 && !shape.empty()) shape.erase(shape.begin());
    if (target.transposed && shape.size() == 2) std::swap(shape[0], shape[1]);
    return shape;
  }
  std::string table_name() const {
    return prefix_of(file_) + part_name(file_.require_config(), is_gguf(file_), Part::embedding, -1) +
           ".weight";
  }
  std::string described(const Target& target) const {
    const TensorView& view = file_.tensor(target.new_head ? table_name() : target.tensor);
    return fmt::format("{}, {}", view.name, view.describe());
  }

  void refuse_other_shape(const LoraFile& lora, const LoraPair& pair, const Target& target) const {
    if (shape_of(target) == std::vector<int64_t>{pair.rows, pair.columns}) return;
    throw Error(fmt::format("{}: tensors {}, {}, and {}, {}, do not fit {}", lora.path, pair.a.name,
                            pair.a.describe(), pair.b.name, pair.b.describe(), described(target)));
  }
  void refuse_other_shape(const LoraFile& lora, const LoraValue& value, const Target& target) const {
    std::vector<int64_t> shape = value.value.shape;
    // Hugging Face's GPT-2 stores some matrices as [columns, rows].
    if (stored_transposed(target, lora.gguf) && shape.size() == 2) std::swap(shape[0], shape[1]);
    if (shape_of(target) == shape) return;
    throw Error(fmt::format("{}: tensor {}, {}, does not fit {}", lora.path, value.value.name,
                            value.value.describe(), described(target)));
  }
  bool stored_transposed(const Target& target, bool gguf) const {
    return !gguf && file_.require_config().architecture == "gpt2" && is_transposed(target.part);
  }

  /// A head or a table that changes is not the other one any longer.
  void own_head() {
    ModelConfig& config = *file_.config;
    const std::string head = part_name(config, is_gguf(file_), Part::head, -1) + ".weight",
                      table = table_name();
    if (!changes_.contains(head) && !changes_.contains(table)) return;
    if (file_.find(head) == nullptr) {
      TensorView view = file_.tensor(table);
      view.name = head;
      file_.tensors.push_back(std::move(view));
      file_.index_names();
    }
    config.tied_embeddings = false;
  }

  /// Whether the tensor stays as it is and products of low rank are added to what it gives.
  bool stays(const TensorView& view, const Change& change) const {
    if (blocks_ != ChangedBlocks::beside || !storage_info(view.type).quantized() ||
        !change.replacements.empty())
      return false;
    const Part part = change.additions[0].target.part;
    return !is_experts(part) && part != Part::positions;
  }
  StorageType new_type(const TensorView& view) const {
    const bool blocks = storage_info(view.type).quantized();
    if (!can_dequantize(view.type) || (!blocks && !storage_info(view.type).floating(2)) ||
        (blocks && blocks_ == ChangedBlocks::same && !can_quantize(view.type)))
      throw Error(fmt::format("{}: tensor {} is stored as {}, which adapters do not change", file_.path,
                              view.name, storage_name(view.type)));
    if (view.type == StorageType::f64) return StorageType::f32;
    if (!blocks || blocks_ == ChangedBlocks::same) return view.type;
    return blocks_ == ChangedBlocks::bf16 ? StorageType::bf16 : StorageType::f32;
  }

  /// The adapter's rows in the order of the model's.
  std::vector<float> in_order(std::vector<float> values, const Target& target, bool gguf) const {
    const ModelConfig& config = file_.require_config();
    const int64_t heads = target.part == Part::q   ? config.num_heads
                          : target.part == Part::k ? config.num_kv_heads
                                                   : 0;
    const bool pairs = gguf && architecture_has_pairs(), wanted = has_rotary_pairs(file_);
    if (heads == 0 || pairs == wanted) return values;
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    const std::string moved = with_rotary_pairs(bytes, heads * config.head_dim, heads, pairs);
    std::memcpy(values.data(), moved.data(), moved.size());
    return values;
  }
  bool architecture_has_pairs() const {
    const ModelConfig& config = file_.require_config();
    return is_gguf(file_) ? config.rope_interleaved : gguf_family(config) == "llama";
  }

  static std::vector<float> finite(Result<std::vector<float>> values, const LoraFile& lora,
                                   const TensorView& view) {
    if (!values) throw Error(values.error());
    if (!std::ranges::all_of(*values, [](float v) { return std::isfinite(v); }))
      throw Error(fmt::format("{}: tensor {} has values that are not finite", lora.path, view.name));
    return std::move(*values);
  }
  std::vector<float> left_of(const Change::Addition& a) const {
    return in_order(finite(a.pair->left_values(), *a.lora, a.pair->b), a.target, a.lora->gguf);
  }
  static std::vector<float> right_of(const Change::Addition& a) {
    return finite(a.pair->right_values(), *a.lora, a.pair->a);
  }

  /// All products of a tensor as one, factors in the left one.
  LowRank joined(const Change& change) const {
    LowRank out;
    const LoraPair& first = *change.additions[0].pair;
    for (const auto& a : change.additions) out.rank += a.pair->rank;
    out.left.resize(size_t(first.rows * out.rank));
    int64_t at = 0;
    for (const auto& a : change.additions) {
      const int64_t rank = a.pair->rank;
      const std::vector<float> left = left_of(a), right = right_of(a);
      for (int64_t row = 0; row < first.rows; row++)
        for (int64_t r = 0; r < rank; r++)
          out.left[size_t(row * out.rank + at + r)] = float(a.factor * double(left[size_t(row * rank + r)]));
      out.right.insert(out.right.end(), right.begin(), right.end());
      at += rank;
    }
    return out;
  }

  /// f(row) for all rows, on all cores.
  template <class F> static void each_row(int64_t rows, F f) {
    constexpr int64_t part = 16;
    std::atomic<int64_t> next{0};
    const auto work = [&] {
      for (int64_t begin; (begin = next.fetch_add(part)) < rows;)
        for (int64_t row = begin; row < std::min(begin + part, rows); row++) f(row);
    };
    std::vector<std::jthread> others;
    const auto cores = int64_t(std::max(1U, std::thread::hardware_concurrency()));
    for (int64_t t = 1; t < std::min(cores, rows / part); t++) others.emplace_back(work);
    work();
  }

  static std::vector<float> transposed(const std::vector<float>& values, int64_t rows, int64_t columns) {
    std::vector<float> out(values.size());
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < columns; c++) out[size_t(c * rows + r)] = values[size_t(r * columns + c)];
    return out;
  }

  void add_product(std::vector<float>& values, const Change::Addition& a) const {
    const LoraPair& pair = *a.pair;
    std::vector<float> left = left_of(a), right = right_of(a);
    int64_t rows = pair.rows, columns = pair.columns;
    if (a.target.transposed) {
      std::vector<float> other = transposed(right, pair.rank, columns);
      right = transposed(left, rows, pair.rank);
      left = std::move(other);
      std::swap(rows, columns);
    }
    float* const matrix = values.data() + std::max<int64_t>(a.target.expert, 0) * rows * columns;
    const auto factor = float(a.factor);
    each_row(rows, [&](int64_t row) {
      std::vector<float> sum(size_t(columns), 0.0F);
      for (int64_t r = 0; r < pair.rank; r++) {
        const float share = left[size_t(row * pair.rank + r)];
        const float* const from = right.data() + r * columns;
        for (int64_t c = 0; c < columns; c++) sum[size_t(c)] += share * from[c];
      }
      for (int64_t c = 0; c < columns; c++) matrix[row * columns + c] += factor * sum[size_t(c)];
    });
  }

  /// values += scale * (the adapter's - before)
  void move_towards(std::vector<float>& values, const std::vector<float>& before,
                    const Change::Replacement& r) const {
    const TensorView& view = r.value->value;
    std::vector<float> wanted = finite(dequantize(view), *r.lora, view);
    if (stored_transposed(r.target, r.lora->gguf) != r.target.transposed && view.shape.size() == 2)
      wanted = transposed(wanted, view.shape[0], view.shape[1]);
    wanted = in_order(std::move(wanted), r.target, r.lora->gguf);
    // Hugging Face's Gemma stores the norms' weights less 1.
    const bool norm = r.target.tensor.find("norm") != std::string::npos;
    if (norm && file_.require_config().architecture.starts_with("gemma") && r.lora->gguf != is_gguf(file_))
      for (float& value : wanted) value += r.lora->gguf ? -1.0F : 1.0F;
    for (size_t i = 0; i < values.size(); i++)
      values[i] += float(r.scale * (double(wanted[i]) - double(before[i])));
  }

  std::string changed_bytes(const TensorView& view, StorageType type) const {
    const Change& change = changes_.at(view.name);
    auto before = dequantize(view);
    if (!before) throw Error(before.error());
    std::vector<float> values = *before;
    for (const auto& replacement : change.replacements) move_towards(values, *before, replacement);
    for (const auto& addition : change.additions) add_product(values, addition);
    const float largest = type == StorageType::f16 ? 65504.0F : std::numeric_limits<float>::max();
    for (const float value : values)
      if (!(std::abs(value) <= largest))
        throw Error(fmt::format("{}: tensor {} gets the value {} by the adapters, which {} does not hold",
                                file_.path, view.name, value, storage_name(type)));
    auto bytes = quantize(type, values);
    if (!bytes)
      throw Error(fmt::format("{}: tensor {} with adapters: {}", file_.path, view.name, bytes.error()));
    return std::move(*bytes);
  }

  ModelFile& file_;
  ChangedBlocks blocks_;
  std::vector<std::shared_ptr<const LoraFile>> loras_;
  std::map<std::string, Change> changes_; // by the model's tensor
  std::string file_changes_;
};

} // namespace

void apply_lora(ModelFile& file, std::span<const LoraChoice> adapters, ChangedBlocks blocks) {
  ModelFile changed = file;
  Adapters all(changed, blocks);
  for (const LoraChoice& choice : adapters) all.add(choice);
  all.apply();
  file = std::move(changed);
}

} // namespace luminal::models
