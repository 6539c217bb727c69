#include "gspmd/ops/builders.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gspmd/base/error.h"
#include "gspmd/ops/evaluate.h"

namespace gspmd {
namespace {

const Shape kMatrix(DType::f32, {2, 3});

}  // namespace

TEST_CASE("a failed emit leaves the computation as it was") {
  Module module;
  Computation& c = *module.add_computation("main");
  Node* const a = hlo::parameter(c, 0, kMatrix, "a");
  Node* const b = hlo::parameter(c, 1, Shape(DType::f32, {3, 2}), "b");
  CHECK_THROWS_AS(hlo::binary(Opcode::add, a, b), UserError);
  CHECK_THROWS_AS(hlo::parameter(c, 1, kMatrix), UserError);
  CHECK_THROWS_AS(hlo::parameter(c, -1, kMatrix), UserError);
  CHECK_THROWS_AS(emit(c, Opcode::add, {a}), UserError);
  CHECK_THROWS_AS(emit(c, Opcode::add, {a, nullptr}), UserError);
  CHECK(c.nodes().size() == 2);
  CHECK(c.parameters().size() == 2);
  CHECK(a->users().empty());
  CHECK(hlo::binary(Opcode::add, a, a)->operands() == std::vector<Node*>{a, a});
}

TEST_CASE("operands come from the computation that a node is emitted into") {
  Module module;
  Computation& c = *module.add_computation("main");
  Computation& other = *module.add_computation("other");
  Node* const a = hlo::parameter(c, 0, kMatrix, "a");
  Node* const b = hlo::parameter(other, 0, kMatrix, "b");
  CHECK_THROWS_WITH(
      hlo::binary(Opcode::add, a, b),
      Catch::Contains("add: operand 1 (\"b\") belongs to computation other, the op to main"));
}

TEST_CASE("emitted nodes carry the metadata and phase of the scope around them") {
  Module module;
  Computation& c = *module.add_computation("main");
  Node* const before = hlo::scalar(c, DType::f32, 1);
  Node* inner = nullptr;
  Node* outer = nullptr;
  {
    Metadata layer;
    layer.op_name = "layer";
    const EmissionScope scope(layer, true);
    {
      Metadata dot;
      dot.op_name = "dot";
      const EmissionScope nested(dot);
      inner = hlo::scalar(c, DType::f32, 2);
    }
    outer = hlo::scalar(c, DType::f32, 3);
  }
  Node* const after = hlo::scalar(c, DType::f32, 4);
  CHECK((before->metadata.op_name.empty() && !before->backward));
  CHECK((inner->metadata.op_name == "dot" && inner->backward));
  CHECK((outer->metadata.op_name == "layer" && outer->backward));
  CHECK((after->metadata.op_name.empty() && !after->backward));
}

TEST_CASE("a combiner computation is made once and recognised") {
  Module module;
  Computation* const sum = binary_computation(module, Opcode::add, DType::f32);
  CHECK(binary_computation(module, Opcode::add, DType::f32) == sum);
  CHECK(binary_computation(module, Opcode::add, DType::f64) != sum);
  CHECK(recognize_combiner(*sum) == Combiner::sum);
  CHECK(recognize_combiner(*binary_computation(module, Opcode::multiply, DType::s8)) ==
        Combiner::product);
  CHECK(recognize_combiner(*binary_computation(module, Opcode::maximum, DType::f32)) ==
        Combiner::max);
  CHECK(recognize_combiner(*binary_computation(module, Opcode::minimum, DType::f32)) ==
        Combiner::min);
  CHECK(recognize_combiner(*binary_computation(module, Opcode::and_, DType::s32)) ==
        Combiner::logical_and);
  CHECK(recognize_combiner(*binary_computation(module, Opcode::add, DType::pred)) ==
        Combiner::logical_or);
  CHECK_FALSE(recognize_combiner(*binary_computation(module, Opcode::subtract, DType::f32)));
  CHECK_FALSE(recognize_combiner(*binary_computation(module, Opcode::xor_, DType::s32)));
}

TEST_CASE("a combiner's identity changes nothing, in every type") {
  for (const Combiner combiner : {Combiner::sum, Combiner::product, Combiner::max, Combiner::min,
                                  Combiner::logical_and, Combiner::logical_or})
    for (const DType dtype : {DType::pred, DType::s8, DType::s32, DType::s64, DType::u8, DType::u64,
                              DType::f16, DType::bf16, DType::f32, DType::f64, DType::s4, DType::u4,
                              DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz}) {
      const bool logical = combiner == Combiner::logical_and || combiner == Combiner::logical_or;
      if (logical && is_floating(dtype)) continue;
      Module module;
      Computation& c = *module.add_computation("main");
      Node* const identity = hlo::scalar(c, dtype, combiner_identity(combiner, dtype));
      for (const double value :
           {0.0, 1.0, is_unsigned_integer(dtype) || dtype == DType::pred ? 1.0 : -5.0}) {
        Node* const x = hlo::scalar(c, dtype, value);
        c.set_root(hlo::binary(combiner_opcode(combiner), identity, x));
        INFO(combiner_name(combiner) << " " << dtype_name(dtype) << " " << value);
        CHECK(evaluate(c, {}).array.item() == value);
      }
    }
}

TEST_CASE("identities are the type's own extremes") {
  CHECK(combiner_identity(Combiner::min, DType::s8) == 127);
  CHECK(combiner_identity(Combiner::max, DType::s8) == -128);
  CHECK(combiner_identity(Combiner::min, DType::u16) == 65535);
  CHECK(combiner_identity(Combiner::max, DType::u16) == 0);
  CHECK(combiner_identity(Combiner::logical_and, DType::u8) == 255);
  CHECK(combiner_identity(Combiner::max, DType::bf16) == -INFINITY);
  CHECK(combiner_identity(Combiner::max, DType::f8e5m2) == -INFINITY);
  CHECK(combiner_identity(Combiner::max, DType::f8e4m3fn) == -448);
  CHECK(combiner_identity(Combiner::min, DType::u4) == 15);
}

TEST_CASE("builders make what their names say") {
  Module module;
  Computation& c = *module.add_computation("main");
  Node* const x = hlo::iota(c, kMatrix, 1);
  const auto value = [&](Node* node) {
    c.set_root(node);
    return evaluate(c, {}).array;
  };
  CHECK(bitwise_equal(value(hlo::reduce_sum(x, {1})), Array::of<float>({2}, {3, 3})));
  CHECK(bitwise_equal(value(hlo::reduce_max(x, {0, 1})), Array::scalar(2.0f)));
  CHECK(bitwise_equal(value(hlo::splat(c, kMatrix, 7)), Array::full(kMatrix, 7)));
  CHECK(bitwise_equal(value(hlo::convert(x, DType::s8)),
                      Array::of<int8_t>({2, 3}, {0, 1, 2, 0, 1, 2})));
  CHECK(hlo::convert(x, DType::f32) == x);
  CHECK(hlo::reduce_sum(x, {1})->called[0] == hlo::reduce_sum(x, {0})->called[0]);
  DotDims dims;
  dims.lhs_contracting = dims.rhs_contracting = {1};
  CHECK(bitwise_equal(value(hlo::dot(x, x, dims)), Array::of<float>({2, 2}, {5, 5, 5, 5})));
  CHECK(value(hlo::scalar(c, DType::s8, 1e9)).item() == 127);
}

}  // namespace gspmd
