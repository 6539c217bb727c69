#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace tree_test {
namespace {

template <class T>
struct Leafy {
  T weight;
  std::optional<T> bias;
  GSPMD_FIELDS(weight, bias)
};

template <class T>
struct Nested {
  T embed;
  std::vector<Leafy<T>> layers;
  std::pair<T, std::tuple<T, std::array<T, 2>>> odd;
  int untouched = 5;
  GSPMD_FIELDS(embed, layers, odd)
};

Shape shape(int64_t n) { return {DType::f32, {n}}; }

Nested<Shape> sample() {
  return {shape(1),
          {{shape(2), std::nullopt}, {shape(3), shape(4)}},
          {shape(5), {shape(6), {shape(7), shape(8)}}}};
}

}  // namespace

TEST_CASE("flatten lists leaves in order of declaration with their paths", "[api]") {
  std::vector<std::string> paths;
  Dims sizes;
  for (const auto& [path, leaf] : flatten(sample(), "params")) {
    paths.push_back(path);
    sizes.push_back(leaf.dims[0]);
  }
  CHECK(paths == std::vector<std::string>{"params.embed", "params.layers.0.weight",
                                          "params.layers.1.weight", "params.layers.1.bias",
                                          "params.odd.0", "params.odd.1.0", "params.odd.1.1.0",
                                          "params.odd.1.1.1"});
  CHECK(sizes == Dims{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(leaf_count_of(sample()) == 8);
}

TEST_CASE("rebinding keeps the structure and changes the leaves", "[api]") {
  static_assert(std::is_same_v<rebind_t<Nested<Shape>, Array>, Nested<Array>>);
  static_assert(std::is_same_v<rebind_t<Adam<Nested<Tensor>>, Array>, Adam<Nested<Array>>>);
  static_assert(std::is_same_v<leaf_t<Adam<std::vector<Nested<Tensor>>>>, Tensor>);
  const Nested<Array> arrays =
      map_tree(sample(), [](const std::string&, const Shape& s) { return Array(s); });
  CHECK(arrays.layers.size() == 2);
  CHECK_FALSE(arrays.layers[0].bias.has_value());
  CHECK(arrays.layers[1].bias->shape() == shape(4));
  CHECK(std::get<1>(std::get<1>(arrays.odd))[1].shape() == shape(8));
  CHECK(arrays.untouched == 5);
}

TEST_CASE("map_leaves combines trees leaf by leaf and refuses different trees", "[api]") {
  const auto added =
      map_leaves([](const Shape& a, const Shape& b) { return a.dims[0] * 10 + b.dims[0]; },
                 sample(), sample());
  CHECK(added.layers[1].weight == 33);
  Nested<Shape> other = sample();
  other.layers[0].bias = shape(9);
  const auto combine = [&] {
    map_leaves([](const Shape& a, const Shape&) { return a; }, sample(), other);
  };
  CHECK(message_of<UserError>(combine) ==
        "map_leaves: the trees differ at \"layers.1.weight\"; give trees of one structure");
  using List = std::vector<Shape>;
  const auto longer = [] {
    map_leaves([](const Shape& a, const Shape&) { return a; }, List{shape(1)},
               List{shape(1), shape(2)});
  };
  CHECK(message_of<UserError>(longer) ==
        "map_leaves: the first tree ends before \"1\"; give trees of one structure");
}

TEST_CASE("optimizer state is a tree around the parameters' tree", "[api]") {
  const auto state = Adam<Nested<Shape>>::zeros_like(sample());
  const auto leaves = flatten(state);
  CHECK(leaves.size() == 17);
  CHECK(leaves[0].first == "m.embed");
  CHECK(leaves[16].first == "step");
  CHECK(leaves[16].second == Shape(DType::s32, {}));
}

TEST_CASE("what flatten gives is a tree of the same paths", "[api]") {
  const auto leaves = flatten(sample());
  CHECK(flatten(leaves) == leaves);
  CHECK(flatten(leaves, "params").at(1).first == "params.layers.0.weight");
  using Leaves = std::vector<std::pair<std::string, Array>>;
  static_assert(std::is_same_v<rebind_t<decltype(leaves), Array>, Leaves>);
  static_assert(std::is_same_v<leaf_t<Adam<Leaves>>, Array>);
  const Leaves arrays =
      map_tree(leaves, [](const std::string&, const Shape& s) { return Array(s); });
  const auto doubled = compile(
      [](std::vector<std::pair<std::string, Tensor>> t) {
        return map_leaves([](const Tensor& x) { return x + 1; }, t);
      },
      {}, arrays)(arrays);
  CHECK(doubled.size() == 8);
  CHECK(doubled[3].first == "layers.1.bias");
  CHECK(doubled[3].second.at(0) == 1);
}

}  // namespace tree_test
