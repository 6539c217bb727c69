#include <algorithm>
#include <cstdlib>
#include <set>

#include "api/support.h"
#include "gspmd/passes/complete/propagate.h"
#include "gspmd/passes/explain/explain_sharding.h"
#include "gspmd/passes/explain/sharding_sources.h"

// A training step of 24 blocks whose only annotations are one per kind of weight and one of the
// blocks' input: what completion makes of it, and what each annotation explains.

using namespace gspmd;
using namespace gspmd::test;

namespace {

constexpr int64_t kLayers = 24, kBatch = 8, kSeq = 4, kModel = 16, kHeads = 8, kHeadDim = 2;
constexpr int64_t kHidden = 32, kVocab = 24;

template <class T>
struct Block {
  T norm, wq, wk, wv, wo, w_in, w_out;
  GSPMD_FIELDS(norm, wq, wk, wv, wo, w_in, w_out)
};

template <class T>
struct Params {
  T embedding;
  std::vector<Block<T>> blocks;
  GSPMD_FIELDS(embedding, blocks)
};

Params<Shape> shapes() {
  const auto f32 = [](Dims dims) { return Shape(DType::f32, std::move(dims)); };
  Params<Shape> params{f32({kVocab, kModel}), {}};
  const Shape in = f32({kModel, kHeads, kHeadDim});
  for (int64_t i = 0; i < kLayers; ++i)
    params.blocks.push_back({f32({kModel}), in, in, in, f32({kHeads, kHeadDim, kModel}),
                             f32({kModel, kHidden}), f32({kHidden, kModel})});
  return params;
}

const Mesh& mesh() {
  static const Mesh value{{"x", 2}, {"y", 4}};
  return value;
}

// One annotation per line: its line is what tells the kinds apart, as it does for a user.
Tensor block(const Block<Tensor>& p, Tensor input) {
  const Tensor x = mesh_split(input, mesh(), {"x", _, "y"});
  const Tensor wq = mesh_split(p.wq, mesh(), {"x", "y", _});
  const Tensor wk = mesh_split(p.wk, mesh(), {"x", "y", _});
  const Tensor wv = mesh_split(p.wv, mesh(), {"x", "y", _});
  const Tensor wo = mesh_split(p.wo, mesh(), {"y", _, "x"});
  const Tensor w_in = mesh_split(p.w_in, mesh(), {"x", "y"});
  const Tensor w_out = mesh_split(p.w_out, mesh(), {"y", "x"});
  const Tensor h = rms_norm(x, p.norm);
  const Tensor q = einsum("bsm,mnd->bsnd", h, wq);
  const Tensor k = einsum("btm,mnd->btnd", h, wk);
  const Tensor v = einsum("btm,mnd->btnd", h, wv);
  const Tensor weights = softmax(einsum("bsnd,btnd->bnst", q, k), {.axis = -1});
  const Tensor read = einsum("bnst,btnd->bsnd", weights, v);
  const Tensor y = x + einsum("bsnd,ndm->bsm", read, wo);
  const Tensor hidden = gelu(einsum("bsm,mh->bsh", y, w_in));
  return y + einsum("bsh,hm->bsm", hidden, w_out);
}

Tensor loss(const Params<Tensor>& p, Tensor tokens, Tensor labels) {
  const Tensor table = mesh_split(p.embedding, mesh(), {"y", "x"});
  Tensor x = take(table, tokens);
  for (const Block<Tensor>& b : p.blocks) x = block(b, x);
  return cross_entropy(einsum("bsm,vm->bsv", x, table), labels);
}

const Traced& step() {
  static const Traced traced = [] {
    const auto fn = [](Params<Tensor> params, Adam<Params<Tensor>> state, Tensor tokens,
                       Tensor labels) {
      auto [value, grads] = value_and_grad(loss)(params, tokens, labels);
      auto [new_params, new_state] = state.update(params, grads, AdamOptions{});
      return std::tuple{new_params, new_state, value};
    };
    const Params<Shape> params = shapes();
    const Shape tokens(DType::s32, {kBatch, kSeq});
    TraceOptions options;
    options.argument_names = {"params", "state", "tokens", "labels"};
    return trace(options, fn, params, Adam<Params<Shape>>::zeros_like(params), tokens, tokens);
  }();
  return traced;
}

bool is_annotation(const Node& node) {
  return node.is(Opcode::custom_call) && node.attrs.custom_call_target == "Sharding";
}

std::unique_ptr<Module> completed_without(const std::set<std::string>& names) {
  std::unique_ptr<Module> module = step().module().clone();
  Computation& entry = *module->entry();
  for (const auto& node : entry.nodes())
    if (names.contains(node->name())) entry.replace_uses(node.get(), node->operand(0));
  entry.remove_dead();
  propagate(*module);
  return module;
}

struct Removal {
  int64_t explained = 0;   // values with a digit that nothing but what was removed explains
  int64_t changed = 0;     // values laid out differently without
  int64_t redundant = 0;   // values with a digit that what was removed and others explain
  int64_t kept = 0;        // explained, and yet as they were
  int64_t unforeseen = 0;  // changed, and explained by others
  int64_t dangling = 0;    // digits that stay and name what is gone
  std::string first;       // of those kept or unforeseen
};

std::string both_of(const Node& before, const Node& after) {
  const auto text = [](const Node& node) {
    return node.sharding ? to_string(*node.sharding) : std::string("none");
  };
  return before.name() + ": " + text(before) + " -> " + text(after) + "\n" +
         describe_sharding(before) + "now\n" + describe_sharding(after);
}

Removal remove(const Module& with, const ShardingSources& sources,
               const std::set<std::string>& names) {
  const std::unique_ptr<Module> without = completed_without(names);
  std::map<std::string, const Node*> after;
  for (const auto& node : without->entry()->nodes()) after[node->name()] = node.get();
  const auto removed = [&](const std::string& name) { return names.contains(name); };
  Removal result;
  for (const auto& node : with.entry()->nodes()) {
    if (names.contains(node->name()) || !after.contains(node->name())) continue;
    const Node& now = *after.at(node->name());
    bool explained = false, redundant = false;
    for (size_t i = 0; i < node->origins.size(); ++i) {
      const std::vector<std::string> behind = sources.annotations(*node, i);
      const bool all = std::all_of(behind.begin(), behind.end(), removed);
      explained |= all;
      redundant |= !all && std::any_of(behind.begin(), behind.end(), removed);
    }
    const Sharding a = node->sharding.value_or(Sharding::replicated());
    const Sharding b = now.sharding.value_or(Sharding::replicated());
    const bool changed = !(a == b);
    result.explained += explained;
    result.changed += changed;
    result.redundant += redundant && !explained;
    result.kept += explained && !changed;
    result.unforeseen += changed && !explained;
    for (const Origin& o : now.origins)
      result.dangling += names.contains(o.annotation) || !after.contains(o.annotation);
    if (changed != explained && result.first.empty()) result.first = both_of(*node, now);
  }
  return result;
}

const std::map<int64_t, std::set<std::string>>& annotations_by_line() {
  static const auto lines = [] {
    std::map<int64_t, std::set<std::string>> found;
    for (const auto& node : step().module().entry()->nodes())
      if (is_annotation(*node)) found[node->metadata.source_line].insert(node->name());
    return found;
  }();
  return lines;
}

// The lists of mesh axes that a parameter is annotated with, by the end of its path.
Sharding wanted(const std::string& path) {
  const auto ends = [&](const char* name) { return path.ends_with(name); };
  if (ends(".wo")) return sharding_of(mesh(), {"y", _, "x"});
  if (ends(".w_in")) return sharding_of(mesh(), {"x", "y"});
  if (ends(".w_out") || ends(".embedding")) return sharding_of(mesh(), {"y", "x"});
  if (ends(".norm")) return sharding_of(mesh(), {"y"});
  return sharding_of(mesh(), {"x", "y", _});
}

}  // namespace

TEST_CASE("a step of 24 blocks needs one annotation per kind of weight and one of x", "[api]") {
  const std::unique_ptr<Module> module = completed_without({});
  const Computation& entry = *module->entry();
  CHECK(annotations_by_line().size() == 8);
  int64_t dots = 0;
  for (const auto& node : entry.nodes()) {
    if (!node->is(Opcode::dot)) continue;
    ++dots;
    if (!node->sharding || node->sharding->num_tiles() != mesh().num_devices())
      FAIL_CHECK(node->name() << " " << to_string(node->shape) << " is "
                              << (node->sharding ? to_string(*node->sharding) : "nothing"));
  }
  CHECK(dots > 3 * 8 * kLayers);
  // Weights, both moments and the new ones of each are laid out as the weights were annotated.
  for (size_t i = 0; i < step().arguments().size(); ++i) {
    const std::string& path = step().arguments()[i].path;
    if (path == "tokens" || path == "labels" || path == "state.step") continue;
    INFO(path);
    const Node& parameter = *entry.parameters()[i];
    if (!parameter.sharding || !equivalent(*parameter.sharding, wanted(path)))
      FAIL_CHECK((parameter.sharding ? to_string(*parameter.sharding) : "nothing"));
  }
  for (size_t i = 0; i < step().results().size(); ++i) {
    const std::string& path = step().results()[i].path;
    if (step().results()[i].shape.rank() == 0) continue;
    INFO(path);
    const Sharding& result = entry.root()->sharding->elements().at(i);
    if (!equivalent(result, wanted(path))) FAIL_CHECK(to_string(result));
  }
}

// What the test below found: printed, so that a failure says by how much.
std::string text_of(const Removal& r) {
  return fmt::format("{} explained, {} changed, {} redundant, {} kept, {} unforeseen\n{}",
                     r.explained, r.changed, r.redundant, r.kept, r.unforeseen, r.first);
}

TEST_CASE("exactly the values that a line of annotations explains change without it", "[api]") {
  const std::unique_ptr<Module> with = completed_without({});
  const ShardingSources sources(*with);
  for (const auto& [line, names] : annotations_by_line()) {
    const Removal r = remove(*with, sources, names);
    INFO("line " << line << ": " << text_of(r));
    CHECK(r.changed > 0);
    CHECK(r.dangling == 0);
    CHECK(r.kept == 0);
    CHECK(r.unforeseen == 0);
  }
}

TEST_CASE("exactly the values that one block's annotation explains change without it", "[api]") {
  const std::unique_ptr<Module> with = completed_without({});
  const ShardingSources sources(*with);
  const bool all = std::getenv("GSPMD_LONG") != nullptr;
  size_t seen = 0;
  for (const auto& [line, names] : annotations_by_line()) {
    size_t i = 0;
    for (const std::string& name : names) {
      if (!all && i++ != (7 * ++seen) % names.size()) continue;
      const Removal r = remove(*with, sources, {name});
      INFO("line " << line << " " << name << ": " << text_of(r));
      CHECK(r.dangling == 0);
      CHECK(r.kept == 0);
      CHECK(r.unforeseen == 0);
    }
  }
}
