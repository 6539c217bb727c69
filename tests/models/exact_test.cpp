// The exact form: integer-preserving operations, so the same bits on every mesh.
#include <catch2/catch.hpp>

#include "gspmd/testing.h"
#include "models/small_models.h"

namespace gspmd::models {
namespace {

TransformerConfig exact_config(DType dtype, int64_t size) {
  TransformerConfig config;
  config.layers = 1;
  config.model = config.hidden = config.seq = size;
  config.heads = 4;
  config.vocab = 11;
  config.form = Form::exact;
  config.dtype = dtype;
  return config;
}

std::vector<Array> arguments_of(const TransformerConfig& config, uint32_t seed,
                                const Leaves<Array>& batch) {
  std::vector<Array> leaves;
  const TransformerParams<Array> params = initial_parameters(config, seed);
  for_each_leaf(params, [&](const std::string&, const Array& leaf) { leaves.push_back(leaf); });
  for (const auto& [path, leaf] : batch) leaves.push_back(leaf);
  return leaves;
}

void check_bits(const TransformerConfig& config) {
  const Leaves<Array> batch = random_batch(config, 7, 5);
  TransformerRun single = trainer_on(config, Mesh(), "data");
  const auto reference_trainer = make_trainer(single);
  const Traced& traced = reference_trainer->executable().traced();
  const std::vector<Array> arguments = arguments_of(config, single.seed, batch);

  CHECK(is_exact(traced, arguments));
  const std::vector<Array> expected = run_reference(traced, arguments);
  REQUIRE(expected.at(0).item() != 0);

  for (const Mesh& mesh : test_meshes()) {
    for (const std::string& recipe : recipe_names()) {
      INFO(to_string(mesh) << " recipe " << recipe);
      const auto trainer = make_trainer(trainer_on(config, mesh, recipe));
      CHECK(trainer->step(batch, 0).loss == expected[0].item());
      const Leaves<Array>& gradients = trainer->gradients();
      REQUIRE(gradients.size() + 1 == expected.size());
      for (size_t i = 0; i < gradients.size(); ++i) {
        INFO("gradient " << traced.results().at(i + 1).path);
        CHECK(bitwise_equal(gradients[i].second, expected[i + 1]));
      }
    }
  }
}

}  // namespace

TEST_CASE("the exact form in f32 gives the same bits on every mesh, gradients included",
          "[models]") {
  check_bits(exact_config(DType::f32, 8));
}

TEST_CASE("the exact form in f64 gives the same bits on every mesh, gradients included",
          "[models]") {
  check_bits(exact_config(DType::f64, 32));
}

TEST_CASE("the exact form with numbers too large for f32 is known not to be exact", "[models]") {
  TransformerConfig config = exact_config(DType::f32, 32);
  config.layers = 2;
  const TransformerRun options = trainer_on(config, Mesh(), "data", 2);
  const auto trainer = make_trainer(options);
  const Leaves<Array> batch = random_batch(config, 2, 5);
  CHECK(!is_exact(trainer->executable().traced(), arguments_of(config, options.seed, batch)));
}

}  // namespace gspmd::models
