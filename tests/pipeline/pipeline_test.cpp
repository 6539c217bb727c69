#include "models/pipeline.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "pipeline/stacks.h"

namespace gspmd::models {
namespace {

Tensor exact_layer(const ResidualLayer<Tensor>& p, const Tensor& x) {
  return x + einsum("...h,hm->...m", relu(einsum("...m,mh->...h", x, p.w) + p.b), p.v);
}

Tensor smooth_layer(const ResidualLayer<Tensor>& p, const Tensor& x) {
  return x + einsum("...h,hm->...m", tanh(einsum("...m,mh->...h", x, p.w) + p.b), p.v);
}

using Layer = Tensor (*)(const ResidualLayer<Tensor>&, const Tensor&);

// Loss, result and gradients of a stack, by a pipeline or one layer after the other.
auto stack_step(Layer layer, const std::optional<PipelineOptions>& options, int64_t rounds) {
  return [=](ResidualLayer<Tensor> weights, Tensor x, Tensor labels) {
    const auto loss = [&](const ResidualLayer<Tensor>& w, const Tensor& in) {
      Tensor y;
      if (!options) {
        y = run_layers(layer, w, in);
      } else if (options->kind == PipelineKind::circular) {
        y = pipeline(layer, in_rounds(w, rounds), in, *options);
      } else {
        y = pipeline(layer, w, in, *options);
      }
      return std::pair{sum(y * labels), y};
    };
    return value_and_grad<0, 1>(loss)(weights, x);
  };
}

std::vector<Array> run_stack(Layer layer, const StackSizes& sizes,
                             const std::optional<PipelineOptions>& options, int64_t rounds,
                             const Mesh& mesh = {}) {
  const bool exact = layer == exact_layer;
  const ResidualLayer<Array> weights = stack_weights(sizes, exact, DType::f64);
  const Array x = stack_input(sizes, exact, DType::f64);
  const Array labels = stack_input(sizes, exact, DType::f64, 6);
  CompileOptions compiling;
  compiling.mesh = mesh;
  compiling.threads = 2;
  compiling.poison = true;
  const auto program = compile(stack_step(layer, options, rounds), compiling, weights, x, labels);
  return gspmd::detail::argument_leaves(program(weights, x, labels));
}

}  // namespace

TEST_CASE("pipeline: gradients are those of the layers one after the other", "[pipeline]") {
  StackSizes sizes;
  const std::vector<Array> expected = run_stack(exact_layer, sizes, std::nullopt, 1);
  for (const int64_t stages : {1, 2, 4, 8})
    for (const bool remat : {false, true}) {
      PipelineOptions options;
      options.stages = stages;
      options.remat = remat;
      INFO("gpipe, " << stages << " stages" << (remat ? ", remat" : ""));
      CHECK(expect_close(run_stack(exact_layer, sizes, options, 1), expected, {0, 0}));
    }
  for (const auto& [stages, rounds] :
       {std::pair<int64_t, int64_t>{1, 4}, {2, 4}, {4, 2}, {8, 1}, {2, 1}, {2, 2}}) {
    PipelineOptions options;
    options.kind = PipelineKind::circular;
    options.stages = stages;
    INFO("circular, " << stages << " stages, " << rounds << " rounds");
    CHECK(expect_close(run_stack(exact_layer, sizes, options, rounds), expected, {0, 0}));
  }
}

TEST_CASE("pipeline: for a number of micro-batches, gradients have the same bits by any stages",
          "[pipeline]") {
  StackSizes sizes;
  sizes.microbatches = 1;
  sizes.rows = 32;
  const std::vector<Array> whole = run_stack(smooth_layer, sizes, std::nullopt, 1);
  for (const int64_t microbatches : {1, 4, 32}) {
    sizes.microbatches = microbatches;
    sizes.rows = 32 / microbatches;
    std::vector<Array> expected;
    for (const int64_t stages : {1, 2, 4, 8}) {
      PipelineOptions options;
      options.stages = stages;
      const std::vector<Array> got = run_stack(smooth_layer, sizes, options, 1);
      INFO(stages << " stages, " << microbatches << " microbatches");
      if (expected.empty()) expected = got;
      CHECK(expect_close(got, expected, {0, 0}));
      const auto weights_of = [](const std::vector<Array>& all) {
        return std::vector<Array>(all.begin() + 2, all.begin() + 5);
      };
      CHECK(expect_close(weights_of(got), weights_of(whole), {1e-6, 1e-9}));
    }
  }
}

TEST_CASE("pipeline: stages on a mesh axis", "[pipeline]") {
  StackSizes sizes;
  const std::vector<Array> expected = run_stack(exact_layer, sizes, std::nullopt, 1);
  for (const Mesh& mesh : {Mesh{{"stage", 4}}, Mesh{{"stage", 2}}, Mesh{{"stage", 3}}}) {
    PipelineOptions options;
    options.stages = 4;
    options.mesh = mesh;
    options.mesh_axis = "stage";
    INFO(to_string(mesh));
    CHECK(expect_close(run_stack(exact_layer, sizes, options, 1, mesh), expected, {0, 0}));
    options.kind = PipelineKind::circular;
    CHECK(expect_close(run_stack(exact_layer, sizes, options, 2, mesh), expected, {0, 0}));
  }
}

}  // namespace gspmd::models
