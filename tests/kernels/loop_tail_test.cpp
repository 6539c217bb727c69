// Machine code of loops over every length up to some vectors: each element type, form of operand
// and way of reduction, between pages that cannot be read.
#include <random>

#include "loop_code_case.h"

namespace gspmd::loop_code_test {
namespace {

enum class Reduced { none, rows, columns };

class TailCase {
 public:
  TailCase(int64_t n, Reduced reduced) : n_(n), rows_(reduced == Reduced::none ? 1 : 3) {
    case_.program.dims = {rows_, n};
    if (reduced != Reduced::none)
      case_.program.reduced = {reduced == Reduced::rows, reduced == Reduced::columns};
    const int f = operand(DType::f32, {n, 1}), across = operand(DType::f32, {1, rows_});
    const int row = operand(DType::f32, {1, 0}), column = operand(DType::f32, {0, 1});
    const int half = convert(operand(DType::bf16, {n, 1}), DType::f32);
    const int half_column = convert(operand(DType::bf16, {0, 1}), DType::f32);
    const int s = operand(DType::s32, {n, 1}), u = operand(DType::u32, {n, 1});
    const int p = operand(DType::pred, {n, 1}), p_column = operand(DType::pred, {0, 1});
    const int p_row = operand(DType::pred, {1, 0});
    LoopValue counting;
    counting.op = LoopOp::iota;
    counting.dtype = DType::s32;
    counting.operand = 1;
    const int shown = op(LoopOp::ge, DType::pred, s, push(counting));
    const int mixed =
        op(LoopOp::multiply, DType::f32, op(LoopOp::add, DType::f32, f, half), across);
    const int chosen = op(LoopOp::select, DType::f32, p_column, mixed, row);
    const int again = op(LoopOp::select, DType::f32, p, chosen, half_column);
    const int masked = op(LoopOp::select, DType::f32, shown, again, column);
    const int total = op(LoopOp::add, DType::f32, masked, convert(u, DType::f32));
    const int all = op(LoopOp::and_, DType::pred, op(LoopOp::or_, DType::pred, p, shown), p_row);
    for (const int v : {op(LoopOp::tanh, DType::f32, total), convert(total, DType::bf16), all,
                        op(LoopOp::multiply, DType::s32, s, s), convert(total, DType::u32)})
      output(v, false);
    if (reduced == Reduced::none) return;
    output(reduce(LoopOp::reduce_sum, total), true);
    output(reduce(LoopOp::reduce_max, masked), true);
    output(reduce(LoopOp::reduce_sum, s), true);
    output(reduce(LoopOp::reduce_and, u), true);
    output(reduce(LoopOp::reduce_or, all), true);
  }
  const Case& made() const { return case_; }

 private:
  const LoopValue& value(int v) const { return case_.program.values[size_t(v)]; }
  int push(LoopValue v) {
    case_.program.values.push_back(std::move(v));
    return int(case_.program.values.size()) - 1;
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
  int convert(int a, DType to) { return op(LoopOp::convert, to, a); }
  int reduce(LoopOp o, int a) {
    LoopValue start;
    start.op = LoopOp::constant;
    start.dtype = value(a).dtype;
    start.constant = Array::full(Shape(start.dtype, {}), 1);
    const int from = push(start);
    return op(o, value(from).dtype, a, from);
  }
  int operand(DType dtype, Dims strides) {
    LoopValue v;
    v.dtype = dtype;
    v.operand = int64_t(case_.operands.size());
    Array data(dtype, {(rows_ - 1) * strides[0] + (n_ - 1) * strides[1] + 1});
    for (int64_t i = 0; i < data.size(); ++i) data.set(i, number(dtype));
    case_.operands.push_back(data);
    v.strides = std::move(strides);
    return push(v);
  }
  double number(DType dtype) {
    const auto any = int64_t(random_() % 1000);
    if (dtype == DType::pred) return double(any % 2);
    if (dtype == DType::u32) return double(any % 5 == 0 ? 4294967295 - any : any);
    if (dtype == DType::s32) return double(any % 70 - 35);
    return any == 0 ? NAN : any < 5 ? -0.0 : double(any - 500) / 90;
  }
  void output(int v, bool is_reduced) {
    case_.program.outputs.push_back({v, is_reduced});
    Dims dims;
    for (size_t d = 0; d < 2; ++d)
      if (!is_reduced || !case_.program.reduced[d]) dims.push_back(case_.program.dims[d]);
    case_.results.emplace_back(value(v).dtype, dims);
  }

  const int64_t n_, rows_;
  std::mt19937_64 random_{7};
  Case case_;
};

}  // namespace

TEST_CASE("loop code: tails of every length touch nothing outside and give the interpreter's bits",
          "[loop]") {
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= 150; ++n) lengths.push_back(n);
  for (const int64_t n : {255, 256, 257, 1023, 1029, 4099}) lengths.push_back(n);
  for (const int64_t n : lengths) {
    for (const Reduced reduced : {Reduced::none, Reduced::rows, Reduced::columns}) {
      const Case c = TailCase(n, reduced).made();
      const std::vector<int> nowhere(c.results.size(), -1);
      const auto want = run(prepare_loop(c.program, {.machine_code = false}), c, nowhere, false);
      for (const LoopTarget target : targets()) {
        const PreparedKernel code = prepare_loop(c.program, {.target = target});
        for (const Fence fence : {Fence::behind, Fence::before}) {
          const auto got = run(code, c, nowhere, false, fence);
          for (size_t o = 0; o < want.size(); ++o) {
            INFO("target " << int(target) << " length " << n << " reduced " << int(reduced)
                           << " output " << o);
            REQUIRE(differing(c.results[o].dtype, want[o], got[o]) == 0);
          }
        }
      }
    }
  }
}

}  // namespace gspmd::loop_code_test
