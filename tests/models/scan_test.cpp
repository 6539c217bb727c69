#include <catch2/catch.hpp>
#include <cmath>

#include "models/small_models.h"

namespace gspmd::models {
namespace {

TransformerConfig deep_config(int64_t layers, bool scan, bool remat) {
  TransformerConfig config = small_config(DType::f64);
  config.vocab = 31;
  config.layers = layers;
  config.scan = scan;
  config.remat = remat;
  return config;
}

// Of the program of loss and gradients: bytes that one device needs beside arguments and results.
int64_t most_live(int64_t layers, bool scan, bool remat, const Mesh& mesh) {
  const TransformerConfig config = deep_config(layers, scan, remat);
  const Transformer model(config, mesh, layout_of_recipe("2d", mesh));
  const auto step = [model](TransformerParams<Tensor> params, Tensor tokens, Tensor labels) {
    return value_and_grad([&model](const auto&... args) { return model.loss(args...); })(
        params, tokens, labels);
  };
  CompileOptions options;
  options.mesh = mesh;
  options.prepare = false;
  const Shape tokens(DType::s32, {7, config.seq});
  return compile(step, options, parameter_shapes(config), tokens, tokens).stats().peak_live_bytes;
}

}  // namespace

TEST_CASE("models: blocks as one loop train as blocks one after the other, on every mesh",
          "[models]") {
  const std::vector<double> expected =
      losses(trainer_on(deep_config(3, false, false), Mesh(), "2d"), 4, 1e-2);
  for (const bool scan : {false, true})
    for (const bool remat : {false, true})
      for (const Mesh& mesh : {Mesh(), Mesh{{"a", 2}, {"b", 4}}, Mesh{{"a", 3}}}) {
        const std::vector<double> got =
            losses(trainer_on(deep_config(3, scan, remat), mesh, "2d"), 4, 1e-2);
        INFO((scan ? "scan" : "unrolled") << (remat ? ", remat" : "") << " on " << to_string(mesh));
        for (size_t i = 0; i < got.size(); ++i)
          CHECK(std::abs(got[i] - expected[i]) < 1e-9 * expected[i]);
      }
}

TEST_CASE("models: a further block of a loop takes no more memory than one that stands alone",
          "[models]") {
  for (const Mesh& mesh : {Mesh(), Mesh{{"a", 2}, {"b", 2}}})
    for (const bool remat : {false, true}) {
      const int64_t by_scan = most_live(16, true, remat, mesh) - most_live(8, true, remat, mesh);
      const int64_t unrolled = most_live(16, false, remat, mesh) - most_live(8, false, remat, mesh);
      INFO((remat ? "remat" : "all kept") << " on " << to_string(mesh));
      CHECK(by_scan <= unrolled);
    }
}

}  // namespace gspmd::models
