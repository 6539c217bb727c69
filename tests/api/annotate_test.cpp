#include "api/support.h"
#include "gspmd/ir/module.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

const Mesh kMesh{{"data", 2}, {"model", 4}};

// The sharding of the first annotation in a function of one tensor.
template <class Fn>
std::string annotation(Fn fn, const Dims& dims) {
  const Traced traced = trace(fn, Shape(DType::f32, dims));
  for (const auto& node : traced.module().entry()->nodes())
    if (node->is(Opcode::custom_call)) {
      CHECK(node->attrs.custom_call_target == "Sharding");
      CHECK(traced.module().num_partitions == 8);
      return to_string(*node->sharding);
    }
  return "none";
}

std::string split(const SplitDims& dims, const Dims& shape) {
  return annotation([&](Tensor x) { return mesh_split(x, kMesh, dims); }, shape);
}

}  // namespace

TEST_CASE("mesh_split takes names, _, lists of axes and the paper's integers", "[api]") {
  CHECK(split({"data", _}, {4, 4}) == "{mesh['data'=2,'model'=4], [{'data'}, {}]}");
  CHECK(split({0, -1}, {4, 4}) == "{mesh['data'=2,'model'=4], [{'data'}, {}]}");
  CHECK(split({"model", "data"}, {4, 4}) == "{mesh['data'=2,'model'=4], [{'model'}, {'data'}]}");
  CHECK(split({{"data", "model"}, _}, {8, 4}) ==
        "{mesh['data'=2,'model'=4], [{'data', 'model'}, {}]}");
  CHECK(split({{"data", "model"}}, {8}) == "{mesh['data'=2,'model'=4], [{'data', 'model'}]}");
  CHECK(split({_, {1, 0}}, {8, 8}) == "{mesh['data'=2,'model'=4], [{}, {'model', 'data'}]}");
}

TEST_CASE("mesh_split takes open dims and axes known at run time", "[api]") {
  CHECK(split({"data", open_dim}, {4, 4}) == "{mesh['data'=2,'model'=4], [{'data'}, {?}]}");
  CHECK(split({{"data", open_dim}, _}, {4, 4}) == "{mesh['data'=2,'model'=4], [{'data', ?}, {}]}");
  const std::vector<std::string> none, both{"data", "model"};
  CHECK(split({none, both}, {4, 8}) == "{mesh['data'=2,'model'=4], [{}, {'data', 'model'}]}");
  const std::vector<DimSplit> dims{std::string("model"), _, -1};
  CHECK(split(dims, {4, 8, 2}) == "{mesh['data'=2,'model'=4], [{'model'}, {}, {}]}");
}

TEST_CASE("uneven and small dims may be split", "[api]") {
  CHECK(split({"model"}, {6}) == "{mesh['data'=2,'model'=4], [{'model'}]}");
  CHECK(split({"model"}, {2}) == "{mesh['data'=2,'model'=4], [{'model'}]}");
}

TEST_CASE("annotate takes any sharding", "[api]") {
  const Sharding given = parse_sharding("{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  CHECK(annotation([&](Tensor x) { return annotate(x, given); }, {4, 4}) ==
        "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  const Sharding named = sharding_of(kMesh, {_, "model"});
  CHECK(annotation([&](Tensor x) { return annotate(x, named); }, {4, 4}) ==
        "{mesh['data'=2,'model'=4], [{}, {'model'}]}");
}

TEST_CASE("a mesh of one device and an empty mesh with nothing split change nothing", "[api]") {
  const Mesh one{{"data", 1}};
  const auto fn = [&](Tensor x) {
    return mesh_split(mesh_split(x, one, {"data"}), Mesh{}, {_}) * 2;
  };
  CHECK(values(run(fn, Array::of<float>({2}, {1, 2}))) == std::vector<double>{2, 4});
}

TEST_CASE("an annotation is the identity, and so is its gradient", "[api]") {
  const Array x = Array::of<double>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto loss = [](Tensor t) { return sum(square(mesh_split(t, kMesh, {"data", "model"}))); };
  const auto [value, gradient] = std::pair{run(loss, x).item(), values(run(grad(loss), x))};
  CHECK(value == 204);
  CHECK(gradient == std::vector<double>{2, 4, 6, 8, 10, 12, 14, 16});
}

TEST_CASE("visualize shows an annotated tensor and says so when nothing is decided", "[api]") {
  trace(
      [](Tensor x) {
        const Tensor annotated = mesh_split(x, kMesh, {"data", "model"});
        CHECK(visualize(annotated) == visualize(x.shape(), sharding_of(kMesh, {"data", "model"})));
        CHECK(visualize(x).find("not annotated") != std::string::npos);
        return x;
      },
      Shape(DType::f32, {4, 4}));
  CHECK(visualize(Array(DType::f32, {2, 2})) ==
        visualize(Shape(DType::f32, {2, 2}), Sharding::replicated()));
}
