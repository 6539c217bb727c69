// The model as a function: layouts, parameters, errors, and what a step does.
#include <catch2/catch.hpp>
#include <cmath>

#include "gspmd/testing.h"
#include "models/small_models.h"

namespace gspmd::models {
namespace {

using Catch::Matchers::Contains;

AxisList all() { return {"a", "b", "c"}; }
AxisList others() { return {"b", "c"}; }

}  // namespace

TEST_CASE("recipes: X is the first axis, Y all others together", "[models]") {
  const Mesh mesh{{"a", 2}, {"b", 2}, {"c", 2}};
  const Layout finalised = layout_of_recipe("2d", mesh);
  CHECK(finalised.batch == AxisList{"a"});
  CHECK(finalised.model == others());
  CHECK(finalised.weight_model == AxisList{"a"});
  CHECK(finalised.weight_heads == others());
  CHECK(finalised.weight_hidden == others());
  CHECK(finalised.weight_vocab == others());
  const Layout first = layout_of_recipe("2d-attempt1", mesh);
  CHECK(first.batch.empty());
  CHECK(first.model == AxisList{"a"});
  const Layout second = layout_of_recipe("2d-attempt2", mesh);
  CHECK(second.batch == AxisList{"a"});
  CHECK(second.model.empty());
  CHECK(layout_of_recipe("data", mesh).batch == all());
  CHECK(layout_of_recipe("model", mesh).weight_heads == all());
  CHECK(layout_of_recipe("fsdp", mesh).batch == all());
  CHECK(layout_of_recipe("fsdp", mesh).weight_model == all());
}

TEST_CASE("recipes: on a mesh of one axis X is that axis, but Y for model", "[models]") {
  const Mesh mesh{{"a", 8}};
  CHECK(layout_of_recipe("2d", mesh).batch == AxisList{"a"});
  CHECK(layout_of_recipe("2d", mesh).weight_model == AxisList{"a"});
  CHECK(layout_of_recipe("2d", mesh).weight_heads.empty());
  CHECK(layout_of_recipe("model", mesh).weight_heads == AxisList{"a"});
}

TEST_CASE("recipes: an unknown name is an error that lists the names", "[models]") {
  CHECK_THROWS_WITH(layout_of_recipe("3d", Mesh()),
                    Contains("\"3d\"") && Contains("2d-attempt1, 2d-attempt2, fsdp"));
}

TEST_CASE("parameters are a function of the seed and named by their place", "[models]") {
  const TransformerConfig config = small_config(DType::f32);
  const auto params = initial_parameters(config, 1);
  const auto leaves = flatten(params), again = flatten(initial_parameters(config, 1));
  std::vector<std::string> names;
  for (size_t i = 0; i < leaves.size(); ++i) {
    names.push_back(leaves[i].first);
    CHECK(bitwise_equal(leaves[i].second, again[i].second));
  }
  CHECK(names == std::vector<std::string>{"embedding", "positions", "blocks.0.attention_norm",
                                          "blocks.0.wq", "blocks.0.wk", "blocks.0.wv",
                                          "blocks.0.wo", "blocks.0.ffn_norm", "blocks.0.w_in",
                                          "blocks.0.w_out", "final_norm"});
  CHECK(params.blocks[0].wq.dims() == Dims{16, 8, 2});
  CHECK(params.blocks[0].wo.dims() == Dims{8, 2, 16});
  CHECK(!bitwise_equal(params.embedding, initial_parameters(config, 2).embedding));
}

TEST_CASE("the exact form's weights are -1, 0 and 1", "[models]") {
  TransformerConfig config = small_config(DType::f32);
  config.form = Form::exact;
  const Array values = initial_parameters(config, 1).embedding;
  std::vector<int64_t> seen(3);
  for (int64_t i = 0; i < values.size(); ++i) {
    REQUIRE(std::abs(values.at(i)) <= 1);
    ++seen.at(size_t(values.at(i) + 1));
  }
  for (const int64_t count : seen) CHECK(count > values.size() / 5);
}

TEST_CASE("wrong sizes are errors that name them", "[models]") {
  TransformerConfig config = small_config(DType::f32);
  config.heads = 5;
  CHECK_THROWS_WITH(check(config), Contains("5 heads") && Contains("16"));
  config = small_config(DType::f32);
  config.seq = 0;
  CHECK_THROWS_WITH(check(config), Contains("seq is 0"));
  config = small_config(DType::bf16);
  CHECK_THROWS_WITH(check(config), Contains("bf16"));
  config = small_config(DType::f32);
  config.form = Form::exact;
  config.bias = true;
  CHECK_THROWS_WITH(check(config), Contains("exact"));
  CHECK_THROWS_WITH(make_trainer(trainer_on(small_config(DType::f32), Mesh(), "2d", 0)),
                    Contains("batch is 0"));
}

TEST_CASE("tokens longer than the learned positions are an error", "[models]") {
  const TransformerConfig config = small_config(DType::f32);
  const Transformer model(config, Mesh(), Layout());
  auto logits = [&](TransformerParams<Tensor> params, Tensor tokens) {
    return model.logits(params, tokens);
  };
  CHECK_THROWS_WITH(trace(logits, parameter_shapes(config), Shape(DType::s32, {1, 7})),
                    Contains("7 positions") && Contains("6"));
}

TEST_CASE("the loss of an untrained model is near that of a uniform guess", "[models]") {
  const double loss = losses(trainer_on(small_config(DType::f32), Mesh(), "2d"), 1).at(0);
  CHECK(loss == Approx(std::log(257)).epsilon(0.25));
}

TEST_CASE("training on one batch lowers its loss", "[models]") {
  const TransformerRun options =
      trainer_on(small_config(DType::f32), Mesh{{"X", 2}, {"Y", 2}}, "2d");
  const auto trainer = make_trainer(options);
  const Leaves<Array> batch = random_batch(options.config, options.batch, 1);
  const double first = trainer->step(batch, 1e-2).loss;
  double last = first;
  for (int i = 0; i < 30; ++i) last = trainer->step(batch, 1e-2).loss;
  CHECK(last < first - 1);
}

TEST_CASE("a later token does not change earlier logits", "[models]") {
  const TransformerConfig config = small_config(DType::f64);
  const Transformer model(config, Mesh(), Layout());
  auto logits = [&](TransformerParams<Tensor> params, Tensor tokens) {
    return model.logits(params, tokens);
  };
  const auto params = initial_parameters(config, 1);
  Array tokens = Array::of<int32_t>({1, 6}, {1, 2, 3, 4, 5, 6});
  const Array before = reference_results(logits, params, tokens).at(0);
  tokens.set(5, 250);
  const Array after = reference_results(logits, params, tokens).at(0);
  bool last_differs = false;
  for (int64_t i = 0; i < before.size(); ++i) {
    if (i < 5 * config.vocab)
      REQUIRE(before.at(i) == after.at(i));
    else
      last_differs = last_differs || before.at(i) != after.at(i);
  }
  CHECK(last_differs);
}

}  // namespace gspmd::models
