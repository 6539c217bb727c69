#include <catch2/catch.hpp>
#include <cmath>

#include "models/small_models.h"

namespace gspmd::models {

TEST_CASE("models: a Transformer trained in 16 bits keeps to the losses of f32 on every mesh",
          "[models]") {
  TransformerConfig config = small_config(DType::f32);
  config.vocab = 67;
  const TransformerRun wide = trainer_on(config, Mesh(), "2d");
  const std::vector<double> expected = losses(wide, 12, 1e-2);
  CHECK(expected.back() < 0.97 * expected.front());
  for (const DType compute : {DType::bf16, DType::f16}) {
    for (const Mesh& mesh : {Mesh(), Mesh{{"a", 2}, {"b", 4}}, Mesh{{"a", 3}}}) {
      TransformerRun options = trainer_on(config, mesh, "2d");
      options.precision.compute = compute;
      if (compute == DType::f16) options.precision.loss_scale = 1024;
      const std::vector<double> got = losses(options, 12, 1e-2);
      INFO(dtype_name(compute) << " on " << to_string(mesh));
      bool same = true;
      for (size_t i = 0; i < got.size(); ++i) {
        CHECK(std::abs(got[i] - expected[i]) < 0.02 * expected[i]);
        same &= got[i] == expected[i];
      }
      CHECK_FALSE(same);  // it did compute in 16 bits
    }
  }
}

TEST_CASE("models: weights and optimizer stay f32 where a step is computed in bf16", "[models]") {
  TransformerRun options = trainer_on(small_config(DType::f32), Mesh{{"a", 2}}, "2d");
  options.precision.compute = DType::bf16;
  options.prepare = false;
  const auto trainer = make_trainer(options);
  const std::string text = trainer->executable().text();
  CHECK(text.find(" dot(") != std::string::npos);
  for (size_t at = text.find(" dot("); at != std::string::npos; at = text.find(" dot(", at + 1)) {
    const size_t line = text.rfind('\n', at);
    INFO(text.substr(line, at - line));
    CHECK(text.substr(line, at - line).find("= bf16[") != std::string::npos);
  }
  CHECK(text.find("bf16[", text.find("ENTRY")) > text.find(" parameter(0)"));
}

}  // namespace gspmd::models
