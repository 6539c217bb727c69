#include <algorithm>
#include <map>

#include "api/support.h"
#include "gspmd/passes/complete/propagate.h"
#include "gspmd/passes/explain/explain.h"
#include "gspmd/passes/explain/sharding_sources.h"
#include "load.h"
#include "passes/causality.h"

// Training steps of 24 blocks, and of 2, whose only annotations are one per kind of weight and one
// of the blocks' input: what completion makes of them, and what each annotation explains.

using namespace gspmd;
using namespace gspmd::test;
using namespace gspmd::testing;

namespace origins_step_test {
namespace {

constexpr int64_t kBatch = 8, kSeq = 4, kModel = 16, kHeads = 8, kHeadDim = 2;
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

Params<Shape> shapes(int64_t layers) {
  const auto f32 = [](Dims dims) { return Shape(DType::f32, std::move(dims)); };
  Params<Shape> params{f32({kVocab, kModel}), {}};
  const Shape in = f32({kModel, kHeads, kHeadDim});
  for (int64_t i = 0; i < layers; ++i)
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

Traced traced_step(int64_t layers) {
  const auto fn = [](Params<Tensor> params, Adam<Params<Tensor>> state, Tensor tokens,
                     Tensor labels) {
    auto [value, grads] = value_and_grad(loss)(params, tokens, labels);
    auto [new_params, new_state] = state.update(params, grads, AdamOptions{});
    return std::tuple{new_params, new_state, value};
  };
  const Params<Shape> params = shapes(layers);
  const Shape tokens(DType::s32, {kBatch, kSeq});
  TraceOptions options;
  options.argument_names = {"params", "state", "tokens", "labels"};
  return trace(options, fn, params, Adam<Params<Shape>>::zeros_like(params), tokens, tokens);
}

constexpr int64_t kLayers = 24;
const Traced& step() {
  static const Traced traced = traced_step(kLayers);
  return traced;
}
const Traced& short_step() {
  static const Traced traced = traced_step(2);
  return traced;
}

bool is_annotation(const Node& node) {
  return node.is(Opcode::custom_call) && node.attrs.custom_call_target == "Sharding";
}

std::map<int64_t, Names> annotations_by_line(const Module& module) {
  std::map<int64_t, Names> found;
  for (const auto& node : module.entry()->nodes())
    if (is_annotation(*node)) found[node->metadata.source_line].insert(node->name());
  return found;
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
  const std::unique_ptr<Module> module = completed_without(step().module(), {}, {});
  const Computation& entry = *module->entry();
  CHECK(annotations_by_line(step().module()).size() == 8);
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

TEST_CASE("exactly the digits of a step that annotations explain are gone without them", "[api]") {
  const Module& given = short_step().module();
  const std::unique_ptr<Module> with = completed_without(given, {}, {});
  const ShardingSources sources(given, *with);
  RemovalCount count;
  for (const auto& [line, names] : annotations_by_line(given))
    count_removal(given, *with, sources, names, {}, count);
  for (const std::string& name : annotations_of(given))
    count_removal(given, *with, sources, {name}, {}, count);
  std::mt19937 random(7);
  while (count.removals < random_load(200))
    count_removal(given, *with, sources, drawn_set(given, *with, sources, random), {}, count);
  INFO(to_string(count));
  CHECK(count.gone > random_load(5000));
  CHECK(count.stay > random_load(5000));
  CHECK(count.kept == 0);
  CHECK(count.restored == 0);
  CHECK(count.unforeseen == 0);
}

// What is said of it, without the rest being tried: the digits of the layers are many.
TEST_CASE("of a program too large to be completed often, ways along the rules are named", "[api]") {
  const Module& given = short_step().module();
  const std::unique_ptr<Module> with = completed_without(given, {}, {});
  const ShardingSources sources(given, *with, {.max_instructions = 0});
  int64_t digits = 0;
  for (const auto& node : with->entry()->nodes())
    for (size_t i = 0; i < node->origins.size(); ++i, ++digits) {
      CHECK_FALSE(sources.seen(*node, i));
      CHECK(sources.annotations(*node, i).front() == node->origins[i].annotation);
    }
  CHECK(digits > 500);
}

TEST_CASE("every collective of a step is another one without the annotations named for it",
          "[api]") {
  const Module& given = short_step().module();
  PipelineOptions options;
  options.num_devices = mesh().num_devices();
  options.propagate.replicate_indivisible_boundary = false;
  options.combine = options.fuse = false;
  options.keep_uncombined = true;
  ExplainOptions limits;
  limits.max_candidates = 1;
  const std::vector<Explanation> all = explain(given, options, limits);
  CHECK(all.size() > 50);
  std::map<Names, std::vector<CollectiveStats>> known;
  const size_t every = 8 / size_t(random_load(8));  // all; each eighth with sanitizers
  for (size_t i = 0; i < all.size(); i += every) {
    const Explanation& e = all[i];
    INFO(e.collective.kind << " of " << e.collective.instruction);
    CHECK(e.evidence != Evidence::none);
    std::vector<Names> claims;
    for (const NamedSharding& a : e.annotations)
      if (e.evidence == Evidence::each || claims.empty())
        claims.push_back({a.node});
      else
        claims[0].insert(a.node);
    for (const Names& claim : claims) {
      if (!known.contains(claim)) {
        auto without = given.clone();
        for (const auto& node : without->entry()->nodes())
          if (claim.contains(node->name())) node->sharding.reset();
        known[claim] =
            collective_stats(*run_pipeline(std::move(without), options).uncombined, &mesh());
      }
      for (const CollectiveStats& c : known[claim])
        if (c.kind == e.collective.kind && c.instruction == e.collective.instruction &&
            c.tensor == e.collective.tensor && c.groups == e.collective.groups &&
            c.backward == e.collective.backward && c.count == e.collective.count)
          CHECK(c.bytes != e.collective.bytes);
    }
  }
}

}  // namespace origins_step_test
