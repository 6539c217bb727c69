// Integers of 8 and 16 bits and narrow floats in machine code: the bits of the interpreter.
#include <random>

#include "loop_code_case.h"

namespace gspmd::loop_code_test::loop_narrow_test {
namespace {

// Programs over `dims` whose operands are any bits.
class NarrowProgram {
 public:
  explicit NarrowProgram(Dims dims, std::vector<bool> reduced = {}) {
    case_.program.dims = std::move(dims);
    case_.program.reduced = std::move(reduced);
  }
  int operand(DType dtype, bool single = false) {
    LoopValue v;
    v.dtype = dtype;
    v.operand = int64_t(case_.operands.size());
    const Dims all = case_.program.dims;
    v.strides = single ? Dims(all.size(), 0) : row_major_strides(all);
    const bool is_float = is_floating(dtype);
    Array data(dtype, single ? Dims{} : all);
    for (std::byte& b : data.bytes()) b = std::byte(uint8_t(random_()) & (is_float ? 0x37 : 0xff));
    if (dtype == DType::f32)
      for (int64_t i = 0; i < data.size(); ++i)
        data.set(i, double(int(random_() % 4001)) / 4 - 500);
    if (dtype == DType::pred)
      for (int64_t i = 0; i < data.size(); ++i) data.set(i, double(random_() % 2));
    case_.operands.push_back(data);
    return push(v);
  }
  int number(double x, DType dtype) {
    LoopValue v;
    v.op = LoopOp::constant;
    v.dtype = dtype;
    v.constant = Array::full(Shape(dtype, {}), x);
    return push(v);
  }
  int op(LoopOp o, DType dtype, int a, int b = -1, int c = -1) {
    LoopValue v;
    v.op = o;
    v.dtype = dtype;
    v.a = a;
    v.b = b;
    v.c = c;
    return push(v);
  }
  void output(int value, bool is_reduced = false) {
    case_.program.outputs.push_back({value, is_reduced});
    Dims dims;
    for (size_t d = 0; d < case_.program.dims.size(); ++d)
      if (!is_reduced || !case_.program.reduced[d]) dims.push_back(case_.program.dims[d]);
    case_.results.emplace_back(case_.program.values[size_t(value)].dtype, dims);
  }
  void check(const std::string& what, std::vector<int> in_place = {}) const {
    if (in_place.empty()) in_place.assign(case_.results.size(), -1);
    const std::vector<int> nowhere(case_.results.size(), -1);
    const auto want =
        run(prepare_loop(case_.program, {.machine_code = false}), case_, nowhere, false);
    for (const LoopTarget target : targets())
      for (const Fence fence : {Fence::behind, Fence::before}) {
        const auto got =
            run(prepare_loop(case_.program, {.target = target}), case_, in_place, true, fence);
        for (size_t o = 0; o < want.size(); ++o) {
          INFO("target " << int(target) << " " << what << " output " << o);
          CHECK(differing(case_.results[o].dtype, want[o], got[o]) == 0);
        }
      }
  }

 private:
  int push(LoopValue v) {
    case_.program.values.push_back(std::move(v));
    return int(case_.program.values.size()) - 1;
  }
  std::mt19937_64 random_{29};
  Case case_;
};

const DType kShort[] = {DType::s8, DType::u8, DType::s16, DType::u16, DType::s4, DType::u4};

}  // namespace

TEST_CASE("loop code: chains of short integers at every length", "[loop]") {
  for (const DType dtype : kShort)
    for (const int64_t n : {1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 129, 4099}) {
      NarrowProgram p({n});
      const int x = p.operand(dtype), y = p.operand(dtype), one = p.operand(dtype, true);
      const int product = p.op(LoopOp::multiply, dtype, x, y);
      const int sum = p.op(LoopOp::add, dtype, product, one);
      p.output(sum);
      const int less = p.op(LoopOp::lt, DType::pred, sum, y);
      p.output(p.op(LoopOp::select, dtype, less, x, p.number(3, dtype)));
      p.output(p.op(LoopOp::convert, DType::f32, sum));
      p.output(p.op(LoopOp::shift_right_logical, dtype, sum, p.number(2, dtype)));
      p.output(p.op(LoopOp::shift_right_arithmetic, dtype, sum, p.number(2, dtype)));
      p.output(p.op(LoopOp::copy, dtype, one));
      p.check(std::string(dtype_name(dtype)) + " " + std::to_string(n));
    }
}

TEST_CASE("loop code: short and narrow numbers among others", "[loop]") {
  for (const DType dtype : kShort)
    for (const DType narrow : {DType::f8e4m3fn, DType::f8e5m2fnuz, DType::bf16})
      for (const Dims& dims : {Dims{301}, Dims{9, 37}, Dims{5, 3}}) {
        NarrowProgram p(dims);
        const int x = p.operand(dtype), f = p.operand(DType::f32), w = p.operand(narrow);
        const int scaled = p.op(LoopOp::multiply, DType::f32, p.op(LoopOp::convert, DType::f32, x),
                                p.op(LoopOp::convert, DType::f32, w));
        const int sum = p.op(LoopOp::add, DType::f32, scaled, f);
        p.output(p.op(LoopOp::convert, dtype, sum));
        const int rounded = p.op(LoopOp::convert, narrow, sum);
        p.output(p.op(LoopOp::add, narrow, rounded, w));
        p.output(rounded);
        p.output(p.op(LoopOp::convert, DType::s32, p.op(LoopOp::convert, dtype, f)));
        p.check(std::string(dtype_name(dtype)) + " " + std::string(dtype_name(narrow)));
      }
}

TEST_CASE("loop code: short integers in the place of an operand", "[loop]") {
  for (const DType dtype : kShort) {
    NarrowProgram p({1031});
    const int x = p.operand(dtype), y = p.operand(dtype);
    p.output(p.op(LoopOp::subtract, dtype, p.op(LoopOp::negate, dtype, x), y));
    p.check(std::string(dtype_name(dtype)), {0});
  }
}

TEST_CASE("loop code: reductions of short integers", "[loop]") {
  for (const DType dtype : kShort)
    for (const bool rows : {false, true})
      for (const LoopOp reduce :
           {LoopOp::reduce_sum, LoopOp::reduce_product, LoopOp::reduce_max, LoopOp::reduce_min,
            LoopOp::reduce_and, LoopOp::reduce_or, LoopOp::reduce_xor}) {
        NarrowProgram p({37, 213}, {rows, !rows});
        const int x = p.operand(dtype);
        const int folded = p.op(reduce, dtype, x, p.number(1, dtype));
        p.output(folded, true);
        p.output(p.op(LoopOp::convert, DType::f32, folded), true);
        if (!rows) p.output(p.op(LoopOp::subtract, dtype, x, folded));
        p.check(std::string(dtype_name(dtype)) + " reduce " + std::to_string(int(reduce)));
      }
}

}  // namespace gspmd::loop_code_test::loop_narrow_test
