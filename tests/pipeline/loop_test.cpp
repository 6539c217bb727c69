// What crosses between stages, what is kept, and what idle slots can do: nothing.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "models/pipeline.h"
#include "pipeline/stacks.h"

namespace gspmd::models::loop_test {
namespace {

using Weights = ResidualLayer<Tensor>;

Tensor layer(const Weights& p, const Tensor& x) {
  return x + einsum("...h,hm->...m", tanh(einsum("...m,mh->...h", x, p.w) + p.b), p.v);
}

// The same for all stages at once.
Tensor layer_of_stages(const Weights& p, const Tensor& x) {
  const Tensor bias = expand_dims(p.b, 1);
  return x + einsum("lrh,lhm->lrm", tanh(einsum("lrm,lmh->lrh", x, p.w) + bias), p.v);
}

ResidualLayer<Array> host_rounds(ResidualLayer<Array> weights, int64_t rounds) {
  return map_leaves(
      [&](const Array& leaf) {
        Dims dims = leaf.dims();
        dims[0] /= rounds;
        dims.insert(dims.begin(), rounds);
        Array shaped(Shape(leaf.dtype(), dims));
        for (int64_t i = 0; i < leaf.size(); ++i) shaped.set(i, leaf.at(i));
        return shaped;
      },
      weights);
}

struct Case {
  StackSizes sizes = {};
  PipelineOptions options = {};
  int64_t rounds = 1;
  bool all_at_once = false;
  bool inspect = false;
  DType dtype = DType::f64;
};

ResidualLayer<Array> case_weights(const Case& c) {
  const auto weights = stack_weights(c.sizes, false, c.dtype);
  return c.options.kind == PipelineKind::circular ? host_rounds(weights, c.rounds) : weights;
}

auto compiled(const Case& c) {
  const auto step = [c](Weights weights, Tensor in, Tensor labels) {
    const auto loss = [&](const Weights& w, const Tensor& x) {
      const Tensor y = c.all_at_once ? pipeline_of_stages(layer_of_stages, w, x, c.options)
                                     : pipeline(layer, w, x, c.options);
      return sum(square(y - labels));
    };
    return value_and_grad<0, 1>(loss)(weights, in);
  };
  CompileOptions options;
  options.mesh = c.options.mesh;
  options.prepare = !c.inspect;
  options.threads = 2;
  const Shape x(c.dtype, {c.sizes.microbatches, c.sizes.rows, c.sizes.model});
  return compile(step, options, case_weights(c), x, x);
}

std::vector<Array> results(const Case& c) {
  return gspmd::detail::argument_leaves(compiled(c)(case_weights(c),
                                                    stack_input(c.sizes, false, c.dtype),
                                                    stack_input(c.sizes, false, c.dtype, 6)));
}

Case case_of(PipelineKind kind, int64_t stages, const Mesh& mesh = {}) {
  Case c;
  c.options.kind = kind;
  c.options.stages = stages;
  c.options.mesh = mesh;
  if (mesh.rank() > 0) c.options.mesh_axis = "stage";
  c.rounds = kind == PipelineKind::circular ? 2 : 1;
  return c;
}

constexpr PipelineKind kKinds[] = {PipelineKind::gpipe, PipelineKind::circular};

}  // namespace

TEST_CASE("pipeline: poison in every slot that does not count changes no bit", "[pipeline]") {
  for (const PipelineKind kind : kKinds)
    for (const bool remat : {false, true})
      for (const Mesh& mesh : {Mesh{}, Mesh{{"stage", 4}}}) {
        Case c = case_of(kind, 4, mesh);
        c.options.remat = remat;
        const std::vector<Array> expected = results(c);
        c.options.poison = std::numeric_limits<double>::quiet_NaN();
        INFO((kind == PipelineKind::gpipe ? "gpipe" : "circular") << " on " << to_string(mesh));
        REQUIRE(std::isfinite(expected[0].at(0)));
        CHECK(expect_close(results(c), expected, {0, 0}));
      }
}

TEST_CASE("pipeline: one collective-permute of a boundary per iteration and direction",
          "[pipeline]") {
  for (const PipelineKind kind : kKinds)
    for (const bool remat : {false, true}) {
      Case c = case_of(kind, 4, Mesh{{"stage", 4}});
      c.options.remat = remat;
      c.inspect = true;
      const auto program = compiled(c);
      const int64_t iterations =
          PipelineSchedule({kind, 4, c.sizes.microbatches, c.rounds}).iterations();
      const int64_t boundary = c.sizes.rows * c.sizes.model * 8;
      INFO(to_string(program.stats()));
      // The all-reduces are of the results that leave the last stage, and of the gradients of what
      // entered the first: once for all micro-batches.
      CHECK(expect_collectives(
          program, {{"collective-permute", "stage", 2 * iterations}, {"all-reduce", "stage", 2}}));
      for (const CollectiveStats& s : program.stats().uncombined)
        if (s.kind == "collective-permute") {
          CHECK(s.count == iterations);
          CHECK(s.bytes == iterations * boundary);
        }
      // Between neighbours; the last stage's goes to the first in circular ones only.
      const bool circular = kind == PipelineKind::circular;
      const std::string text = program.text();
      const auto sends = [&](const std::string& pairs) {
        return text.find("source_target_pairs={" + pairs + "}") != std::string::npos;
      };
      CHECK(sends(circular ? "{0,1},{1,2},{2,3},{3,0}" : "{0,1},{1,2},{2,3}"));
      CHECK(sends(circular ? "{0,3},{1,0},{2,1},{3,2}" : "{1,0},{2,1},{3,2}"));
    }
}

TEST_CASE("pipeline: more stages than devices send one boundary as well", "[pipeline]") {
  Case c = case_of(PipelineKind::gpipe, 8, Mesh{{"stage", 2}});
  c.inspect = true;
  const auto program = compiled(c);
  const int64_t iterations = c.sizes.microbatches + 7;
  const int64_t boundary = c.sizes.rows * c.sizes.model * 8;
  INFO(to_string(program.stats()));
  for (const CollectiveStats& s : program.stats().uncombined)
    if (s.kind == "collective-permute") CHECK(s.bytes == iterations * boundary);
  CHECK(expect_collectives(
      program, {{"collective-permute", "stage", 2 * iterations}, {"all-reduce", "stage", 2}}));
}

TEST_CASE("pipeline: a layer for all stages at once gives what one for each gives", "[pipeline]") {
  for (const PipelineKind kind : kKinds)
    for (const int64_t stages : {2, 4}) {
      Case c = case_of(kind, stages, Mesh{{"stage", 2}});
      const std::vector<Array> expected = results(c);
      c.all_at_once = true;
      CHECK(expect_close(results(c), expected, {1e-12, 1e-12}));
    }
}

namespace {

constexpr int64_t kRows = 512;
// Bytes of one activation of all rows, N: what passes the stages, and what a layer keeps.
constexpr double kActivation = kRows * 8 * 8;

// Bytes of the values of one device at their highest point, of four stages.
double live_bytes(int64_t layers, int64_t microbatches, bool remat) {
  Case c = case_of(PipelineKind::gpipe, 4, Mesh{{"stage", 4}});
  c.sizes = {layers, microbatches, kRows / microbatches, 8, 8};
  c.options.remat = remat;
  c.inspect = true;
  return double(compiled(c).stats().peak_live_bytes);
}

}  // namespace

TEST_CASE("pipeline: live activations are those of the boundaries and of a micro-batch's layers",
          "[pipeline]") {
  for (const int64_t microbatches : {8, 32})
    for (const int64_t layers : {16, 32, 64}) {
      const double per_stage = double(layers) / 4, m = double(microbatches);
      INFO(layers << " layers, " << microbatches << " microbatches");
      // N + (L/K)(N/M), and N L/K where all is kept.
      const double bound = kActivation * ((m + 3) / m + per_stage / m);
      CHECK(live_bytes(layers, microbatches, true) <= 8 * bound);
      if (layers == 16) CHECK(live_bytes(layers, microbatches, false) >= kActivation * per_stage);
    }
  // What a layer more on each stage adds.
  const double made_again = (live_bytes(32, 8, true) - live_bytes(16, 8, true)) / 4;
  const double kept = (live_bytes(32, 8, false) - live_bytes(16, 8, false)) / 4;
  INFO(made_again << " and " << kept << " bytes");
  CHECK(made_again <= 3 * kActivation / 8);
  CHECK(kept >= kActivation);
}

TEST_CASE("pipeline: dropout draws the same numbers whatever the stages", "[pipeline]") {
  const StackSizes sizes{8, 4, 3, 6, 10};
  const auto weights = stack_weights(sizes, false, DType::f64);
  const Array x = stack_input(sizes, false, DType::f64);
  const auto step = [&](int64_t stages) {
    PipelineOptions options;
    options.stages = stages;
    const auto dropped = [](const Weights& p, const Tensor& t, const PipelinePlace<Tensor>& place) {
      return dropout(place.layer * 1000 + place.microbatch, layer(p, t), 0.5);
    };
    const auto fn = [=](Weights w, Tensor in) {
      return value_and_grad(
          [&](const Weights& p) { return sum(square(pipeline(dropped, p, in, options))); })(w);
    };
    return gspmd::detail::argument_leaves(compile(fn, {}, weights, x)(weights, x));
  };
  const std::vector<Array> expected = step(1);
  for (const int64_t stages : {2, 4, 8}) CHECK(expect_close(step(stages), expected, {0, 0}));
}

TEST_CASE("pipeline: trees of tensors pass the stages, integers among them", "[pipeline]") {
  using State = std::pair<Tensor, Tensor>;
  const StackSizes sizes{4, 4, 3, 6, 10};
  const auto weights = stack_weights(sizes, false, DType::f64);
  const Array x = stack_input(sizes, false, DType::f64);
  for (const PipelineKind kind : kKinds) {
    PipelineOptions options;
    options.stages = 2;
    options.kind = kind;
    const auto fn = [=](Weights w, Tensor in) {
      const State start{in, zeros(Shape(DType::s32, {4}))};
      const auto counted = [](const Weights& p, const State& s) {
        return State{layer(p, s.first), s.second + 1};
      };
      if (kind == PipelineKind::circular) w = in_rounds(w, 2);
      return pipeline(counted, w, start, options);
    };
    const auto got = compile(fn, {}, weights, x)(weights, x);
    const auto plain = [](Weights w, Tensor in) { return run_layers(layer, w, in); };
    CHECK(expect_close({got.first}, {compile(plain, {}, weights, x)(weights, x)}, {1e-12, 1e-12}));
    for (int64_t m = 0; m < 4; ++m) CHECK(got.second.at(m) == 4);
  }
}

TEST_CASE("pipeline: what layers say of their micro-batches is summed up by layer, poison left out",
          "[pipeline]") {
  const StackSizes sizes{8, 4, 3, 6, 10};
  const auto weights = stack_weights(sizes, false, DType::f64);
  const Array x = stack_input(sizes, false, DType::f64);
  const auto telling = [](const Weights& p, const Tensor& t) {
    const Tensor y = layer(p, t);
    return std::pair{y, sum(square(y), {.axes = 0})};
  };
  // Gradients through the sums too.
  const auto plain = [&](Weights w, Tensor in) {
    const auto loss = [&](const Weights& p) {
      std::vector<Tensor> said;
      Tensor t = in;
      for (int64_t i = 0; i < sizes.layers; ++i) {
        t = layer(map_leaves([&](const Tensor& leaf) { return leaf(i); }, p), t);
        said.push_back(sum(square(t), {.axes = {0, 1}}));
      }
      const Tensor sums = stack(said);
      return std::pair{sum(t) + sum(sin(sums)), sums};
    };
    return value_and_grad(loss)(w);
  };
  const auto expected = gspmd::detail::argument_leaves(compile(plain, {}, weights, x)(weights, x));
  for (const PipelineKind kind : kKinds)
    for (const bool remat : {false, true}) {
      PipelineOptions options;
      options.kind = kind;
      options.stages = 2;
      options.remat = remat;
      options.poison = std::numeric_limits<double>::quiet_NaN();
      const auto fn = [&](Weights w, Tensor in) {
        const auto loss = [&](const Weights& p) {
          const bool rounds = kind == PipelineKind::circular;
          const auto [y, said] =
              pipeline_with_sums(telling, rounds ? in_rounds(p, 2) : p, in, options);
          const Tensor sums = reshape(said, {sizes.layers, sizes.model});
          return std::pair{sum(y) + sum(sin(sums)), sums};
        };
        return value_and_grad(loss)(w);
      };
      const auto got = gspmd::detail::argument_leaves(compile(fn, {}, weights, x)(weights, x));
      CHECK(expect_close(got, expected, {1e-11, 1e-11}));
    }
}

}  // namespace gspmd::models::loop_test
