// Distributed batch norm: groups of rows are as batches of their own, whatever devices hold them.
#include <catch2/catch.hpp>

#include "convnets/small_convnets.h"
#include "gspmd/testing.h"

namespace gspmd::models {
namespace {

constexpr int64_t kRows = 8;

// Loss, gradients and running averages of a step.
struct Said {
  double loss = 0;
  std::vector<Array> values;
};

Said said(const ResNetConfig& config, const Mesh& mesh, const Leaves<Array>& batch) {
  TrainerOptions options =
      trainer_of(resnet_on(config, mesh, "combined"), mesh, batch[0].second.dim(0));
  options.optimizer.kind = Optimizer::none;
  Trainer trainer(options);
  Said result{trainer.step(batch, 0).loss, {}};
  for (const auto& [path, value] : trainer.gradients()) result.values.push_back(value);
  for (const auto& [path, value] : trainer.model_state()) result.values.push_back(value);
  return result;
}

// Rows [begin, end) of every leaf.
Leaves<Array> rows_of(const Leaves<Array>& batch, int64_t begin, int64_t end) {
  return map_tree(batch, [&](const std::string&, const Array& whole) {
    Shape shape = whole.shape();
    const int64_t row = whole.size() / shape.dims[0];
    shape.dims[0] = end - begin;
    Array part(shape);
    for (int64_t i = 0; i < part.size(); ++i) part.set(i, whole.at(begin * row + i));
    return part;
  });
}

}  // namespace

TEST_CASE("batch norm over groups is that of each group's rows as a batch", "[batch_norm]") {
  ResNetConfig config = small_resnet();
  const ResNet model(config, Mesh(), {});
  const Leaves<Array> batch = random_images(model, kRows, config.classes, 1);
  for (const int64_t groups : {1, 2, 4}) {
    INFO(groups << " groups");
    const int64_t rows = kRows / groups;
    Said expected;  // means over the groups
    for (int64_t g = 0; g < groups; ++g) {
      config.norm_groups = 1;
      const Said one = said(config, Mesh(), rows_of(batch, g * rows, (g + 1) * rows));
      expected.loss += one.loss / double(groups);
      for (size_t i = 0; i < one.values.size(); ++i) {
        if (g == 0) expected.values.push_back(Array(one.values[i].shape()));
        for (int64_t e = 0; e < one.values[i].size(); ++e)
          expected.values[i].set(e,
                                 expected.values[i].at(e) + one.values[i].at(e) / double(groups));
      }
    }
    config.norm_groups = groups;
    for (const Mesh& mesh : {Mesh(), Mesh{{"data", 2}, {"height", 4}}, Mesh{{"data", 4}}}) {
      INFO(to_string(mesh));
      const Said together = said(config, mesh, batch);
      CHECK(together.loss == Approx(expected.loss).epsilon(1e-5));
      CHECK(expect_close(together.values, expected.values, {1e-5, 1e-5}).message == "");
    }
  }
}

TEST_CASE("groups of devices sum their statistics among themselves", "[batch_norm]") {
  const Mesh mesh{{"data", 4}};
  const auto axes_of = [&](int64_t groups) {
    const auto norm = [&, groups](BatchNorm<Tensor> layer, BatchStatistics<Tensor> state,
                                  Tensor x) {
      x = mesh_split(x, mesh, {"data", _, _, _});
      return layer.train(x, state, {.groups = groups}).first;
    };
    const auto step = compile(norm, {.mesh = mesh, .prepare = false}, BatchNorm<Array>::init(6),
                              BatchStatistics<Array>::init(6), Array(DType::f32, {8, 3, 4, 6}));
    std::vector<std::string> sums;
    for (const CollectiveStats& c : step.stats().uncombined)
      sums.push_back(c.kind + " " + c.groups);
    return sums;
  };
  using Sums = std::vector<std::string>;
  CHECK(axes_of(1) == Sums(2, "all-reduce [1,4]<=[4]"));
  CHECK(axes_of(2) == Sums(2, "all-reduce [2,2]<=[4]"));
  CHECK(axes_of(4).empty());
}

}  // namespace gspmd::models
