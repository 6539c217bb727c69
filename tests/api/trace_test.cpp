#include "api/support.h"
#include "gspmd/ir/text.h"

using namespace gspmd;
using namespace gspmd::test;

namespace trace_test {
namespace {

template <class T>
struct Layer {
  T weight, bias;
  GSPMD_FIELDS(weight, bias)
};

const Node* find(const Traced& traced, Opcode opcode) {
  for (const auto& node : traced.module().entry()->nodes())
    if (node->is(opcode)) return node.get();
  return nullptr;
}

}  // namespace

TEST_CASE("a traced program is HLO with named parameters and the user's lines", "[api]") {
  const Layer<Shape> layer{{DType::f32, {4, 3}}, {DType::f32, {3}}};
  const TraceOptions options{.name = "forward", .argument_names = {"params", "x"}};
  const int line = __LINE__ + 2;
  const auto fn = [](Layer<Tensor> p, Tensor x) {
    return tanh(einsum("bm,mn->bn", x, p.weight)) + p.bias;
  };
  const Traced traced = trace(options, fn, layer, Shape(DType::f32, {2, 4}));
  REQUIRE(traced.arguments().size() == 3);
  CHECK(traced.arguments()[0].path == "params.weight");
  CHECK(traced.arguments()[1].path == "params.bias");
  CHECK(traced.arguments()[2].path == "x");
  CHECK(traced.results()[0].shape == Shape(DType::f32, {2, 3}));
  const Module& module = traced.module();
  CHECK(module.entry()->parameters()[1]->name() == "params.bias");
  const Node* dot = find(traced, Opcode::dot);
  REQUIRE(dot);
  CHECK(dot->metadata.op_name == "einsum");
  CHECK(dot->metadata.source_file == "trace_test.cpp");
  CHECK(dot->metadata.source_line == line);
  CHECK(fmt::format("{}", traced) == traced.text());
}

TEST_CASE("a traced program's text reads back as the same module", "[api]") {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const auto fn = [&](Tensor a, Tensor b) {
    const Tensor c = mesh_split(einsum("ij,jk->ik", a, b), mesh, {"x", open_dim});
    return std::pair{softmax(c), stop_gradient(c) + random_uniform(7, {4, 4})};
  };
  const Traced traced = trace(fn, Shape(DType::f32, {4, 8}), Shape(DType::f32, {8, 4}));
  const std::unique_ptr<Module> read = parse_module(traced.text());
  CHECK(to_text(*read) == traced.text());
  CHECK(structurally_equal(*read, traced.module()));
  verify_module(traced.module());
}

TEST_CASE("tensors know their shape, with negative dims", "[api]") {
  trace(
      [](Tensor x) {
        CHECK(x.shape() == Shape(DType::f32, {2, 5}));
        CHECK(x.rank() == 2);
        CHECK(x.dim(-1) == 5);
        CHECK(x.dim(0) == 2);
        CHECK(x.dims() == Dims{2, 5});
        CHECK(x.size() == 10);
        CHECK(x.dtype() == DType::f32);
        return x;
      },
      Shape(DType::f32, {2, 5}));
}

TEST_CASE("names and scopes appear in metadata", "[api]") {
  const auto fn = [](Tensor x) {
    const NameScope layer("layers.0");
    Tensor inner;
    {
      const NameScope attention("attention");
      inner = named(exp(x), "weights");
    }
    return inner * 2;
  };
  const Traced traced = trace(fn, Shape(DType::f32, {2}));
  CHECK(find(traced, Opcode::exponential)->metadata.op_name == "layers.0/attention/weights");
  CHECK(find(traced, Opcode::exponential)->name() == "layers.0_attention_weights");
  CHECK(find(traced, Opcode::multiply)->metadata.op_name == "layers.0/multiply");
}

TEST_CASE("captured arrays become hidden parameters, one per array", "[api]") {
  const Array a = Array::of<float>({2}, {1, 2});
  const Array b = Array::of<float>({2}, {10, 20});
  const auto fn = [&](Tensor x) { return x * a + constant(b) - a; };
  const Traced traced = trace(fn, Shape(DType::f32, {2}));
  CHECK(traced.captured().size() == 2);
  CHECK(traced.arguments().size() == 1);
  CHECK(traced.module().entry()->parameters().size() == 3);
  CHECK(values(run(fn, Array::of<float>({2}, {3, 4}))) == std::vector<double>{12, 26});
}

TEST_CASE("unused arguments stay parameters, unused work does not stay", "[api]") {
  const auto fn = [](Tensor x, Tensor unused) {
    exp(unused);
    return x + 1;
  };
  const Traced traced = trace(fn, Shape(DType::f32, {2}), Shape(DType::f32, {3}));
  CHECK(traced.module().entry()->parameters().size() == 2);
  CHECK(find(traced, Opcode::exponential) == nullptr);
}

TEST_CASE("a trace inside a trace has its own module", "[api]") {
  const auto outer = [](Tensor x) {
    const Traced inner = trace([](Tensor y) { return y * 2; }, Shape(DType::f32, {3}));
    CHECK(inner.results()[0].shape == Shape(DType::f32, {3}));
    return x + 1;
  };
  CHECK(values(run(outer, Array::of<float>({1}, {4}))) == std::vector<double>{5});
}

TEST_CASE("the same function traces to the same text", "[api]") {
  const auto fn = [](Tensor x, Tensor labels) {
    return grad([&](Tensor t) { return cross_entropy(gelu(t), labels); })(x);
  };
  const auto once = [&] {
    return trace(fn, Shape(DType::f32, {3, 5}), Shape(DType::s32, {3})).text();
  };
  CHECK(once() == once());
}

}  // namespace trace_test
