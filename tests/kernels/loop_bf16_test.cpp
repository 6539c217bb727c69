// Rounding to bf16 in machine code, behind every op that may leave it out or take it shorter.
#include <bit>
#include <cstring>
#include <random>

#include "loop_code_case.h"

namespace gspmd::loop_code_test {
namespace {

constexpr int64_t kRows = 7, kElements = 211;

// Bits of all kinds: NaNs with any payload, infinities, subnormal numbers, ties and what lies
// beside them, plain numbers.
class AnyBits {
 public:
  uint32_t next() {
    const auto any = static_cast<uint32_t>(random_());
    switch (random_() % 8) {
      case 0:
        return (any & 0x8000ffffu) | (random_() % 2 == 0 ? 0x7f800000u : 0x7fff0000u);
      case 1:
        return (any & 0x80000000u) | 0x7fffffffu;
      case 2:
        return any & 0x807fffffu;
      case 3:
        return (any & 0xbfff0000u) | 0x00008000u;
      case 4:
        return (any & 0xbfff0000u) | 0x00007fffu;
      case 5:
        return (any & 0x80000000u) | (random_() % 2 == 0 ? 0x7f800000u : 0u);
      default:
        return (any & 0x81ffffffu) | 0x3e000000u;
    }
  }

 private:
  std::mt19937_64 random_{17};
};

// Programs over [kRows, kElements].
class Builder {
 public:
  explicit Builder(Dims dims = {kRows, kElements}, std::vector<bool> reduced = {}) {
    case_.program.dims = std::move(dims);
    case_.program.reduced = std::move(reduced);
  }
  int operand(DType dtype) {
    LoopValue v;
    v.dtype = dtype;
    v.operand = int64_t(case_.operands.size());
    v.strides = row_major_strides(case_.program.dims);
    Array data(dtype, case_.program.dims);
    for (int64_t i = 0; i < data.size(); ++i) {
      const uint32_t bits = bits_.next();
      if (dtype == DType::f32)
        std::memcpy(data.bytes().data() + 4 * i, &bits, 4);
      else if (dtype == DType::pred)
        data.bytes()[size_t(i)] = std::byte(bits & 1u);
      else  // the upper half
        std::memcpy(data.bytes().data() + 2 * i, reinterpret_cast<const char*>(&bits) + 2, 2);
    }
    case_.operands.push_back(data);
    return push(v);
  }
  int number(float x, DType dtype = DType::f32) {
    LoopValue v;
    v.op = LoopOp::constant;
    v.dtype = dtype;
    v.constant = Array::full(Shape(dtype, {}), x);
    return push(v);
  }
  int op(LoopOp o, int a, int b = -1, int c = -1, DType dtype = DType::f32) {
    LoopValue v;
    v.op = o;
    v.dtype = dtype;
    v.a = a;
    v.b = b;
    v.c = c;
    return push(v);
  }
  int wide(int a) { return op(LoopOp::convert, a); }
  void output(int value, bool is_reduced = false) {
    case_.program.outputs.push_back({value, is_reduced});
    Dims dims;
    for (size_t d = 0; d < case_.program.dims.size(); ++d)
      if (!is_reduced || !case_.program.reduced[d]) dims.push_back(case_.program.dims[d]);
    case_.results.emplace_back(case_.program.values[size_t(value)].dtype, dims);
  }
  // Both ways in which a value is rounded.
  void rounded(int value) {
    output(op(LoopOp::round_to_bf16, value));
    output(op(LoopOp::convert, value, -1, -1, DType::bf16));
  }
  const Case& made() const { return case_; }

 private:
  int push(LoopValue v) {
    case_.program.values.push_back(std::move(v));
    return int(case_.program.values.size()) - 1;
  }
  AnyBits bits_;
  Case case_;
};

void compare(const Case& c, const std::string& what) {
  const std::vector<int> nowhere(c.results.size(), -1);
  const auto want = run(prepare_loop(c.program, {.machine_code = false}), c, nowhere, false);
  for (const LoopTarget target : targets()) {
    const auto got = run(prepare_loop(c.program, {.target = target}), c, nowhere, false);
    for (size_t o = 0; o < want.size(); ++o) {
      INFO("target " << int(target) << " " << what << " output " << o);
      CHECK(differing(c.results[o].dtype, want[o], got[o]) == 0);
    }
  }
}

constexpr LoopOp kUnary[] = {LoopOp::copy,
                             LoopOp::negate,
                             LoopOp::abs,
                             LoopOp::sign,
                             LoopOp::exp,
                             LoopOp::expm1,
                             LoopOp::log,
                             LoopOp::log1p,
                             LoopOp::tanh,
                             LoopOp::sqrt,
                             LoopOp::logistic,
                             LoopOp::rsqrt,
                             LoopOp::sine,
                             LoopOp::floor,
                             LoopOp::ceil,
                             LoopOp::round_to_f16,
                             LoopOp::tan,
                             LoopOp::erf,
                             LoopOp::cbrt,
                             LoopOp::round_nearest_even,
                             LoopOp::round_nearest_afz};
constexpr LoopOp kBinary[] = {LoopOp::add,     LoopOp::subtract, LoopOp::multiply, LoopOp::divide,
                              LoopOp::maximum, LoopOp::minimum,  LoopOp::power,    LoopOp::atan2};

}  // namespace

TEST_CASE("loop code: rounding to bf16 behind each op gives the interpreter's bits", "[loop]") {
  for (const bool a_is_bf16 : {false, true}) {
    for (const bool b_is_bf16 : {false, true}) {
      const auto inputs = [&](Builder& p) {
        const int a = a_is_bf16 ? p.wide(p.operand(DType::bf16)) : p.operand(DType::f32);
        const int b = b_is_bf16 ? p.wide(p.operand(DType::bf16)) : p.operand(DType::f32);
        return std::pair{a, b};
      };
      const std::string of = std::string(a_is_bf16 ? "bf16" : "f32") + (b_is_bf16 ? "bf16" : "f32");
      for (const LoopOp op : kUnary) {
        Builder p;
        const int y = p.op(op, inputs(p).first);
        p.rounded(y);
        p.rounded(p.op(LoopOp::multiply, y, p.number(4)));
        p.rounded(p.op(LoopOp::multiply, p.number(0.5), p.op(LoopOp::round_to_bf16, y)));
        compare(p.made(), of + " unary " + std::to_string(int(op)));
      }
      for (const LoopOp op : kBinary) {
        Builder p;
        const auto [a, b] = inputs(p);
        const int y = p.op(op, a, b);
        p.rounded(y);
        p.rounded(p.op(LoopOp::add, y, p.number(1)));  // a NaN of the first goes on
        const int chosen = p.op(LoopOp::select, p.operand(DType::pred), a, y);
        p.rounded(chosen);
        p.rounded(p.op(LoopOp::clamp, b, chosen, y));
        compare(p.made(), of + " binary " + std::to_string(int(op)));
      }
    }
  }
}

TEST_CASE("loop code: rounding to bf16 behind reductions gives the interpreter's bits", "[loop]") {
  for (const bool rows : {false, true}) {
    for (const LoopOp reduce : {LoopOp::reduce_sum, LoopOp::reduce_max, LoopOp::reduce_min}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        Builder p({kRows, kElements}, {rows, !rows});
        const int operand = p.operand(dtype);
        const int x = dtype == DType::f32 ? operand : p.wide(operand);
        const int folded = p.op(reduce, x, p.number(0));
        p.output(p.op(LoopOp::convert, folded, -1, -1, DType::bf16), true);
        if (!rows) p.rounded(p.op(LoopOp::subtract, x, folded));
        compare(p.made(), "rows " + std::to_string(int(rows)) + " reduce " +
                              std::to_string(int(reduce)) + " of " + std::to_string(int(dtype)));
      }
    }
  }
}

TEST_CASE("loop code: programs of bf16 give the interpreter's bits at every length", "[loop]") {
  for (const int64_t n : {1, 15, 16, 31, 33, 63, 64, 65, 100, 127, 129, 250, 4099}) {
    Builder p({n});
    const DType bf16 = DType::bf16;
    const int x = p.operand(bf16), g = p.operand(bf16), shown = p.operand(DType::pred);
    const int square = p.op(LoopOp::multiply, x, x, -1, bf16);
    const int t = p.op(LoopOp::tanh, p.op(LoopOp::add, square, x, -1, bf16), -1, -1, bf16);
    const int slope =
        p.op(LoopOp::subtract, p.number(1, bf16), p.op(LoopOp::multiply, t, t, -1, bf16), -1, bf16);
    const int masked = p.op(LoopOp::select, shown, slope, p.number(-1e30F, bf16), bf16);
    const int e = p.op(LoopOp::exp, p.op(LoopOp::multiply, masked, g, -1, bf16), -1, -1, bf16);
    const int is_less = p.op(LoopOp::lt, t, g, -1, DType::pred);
    p.output(p.op(LoopOp::select, is_less, e, square, bf16));
    p.output(p.op(LoopOp::convert, t, -1, -1, DType::f32));
    p.output(square);
    compare(p.made(), "length " + std::to_string(n));
  }
}

// With AVX2 vectors hold the even or the odd elements of those.
TEST_CASE("loop code: what reads and stores bf16 only gives the interpreter's bits", "[loop]") {
  for (const Dims& dims : {Dims{1}, Dims{15}, Dims{16}, Dims{17}, Dims{31}, Dims{32}, Dims{33},
                           Dims{63}, Dims{64}, Dims{100}, Dims{4099}, Dims{9, 48}}) {
    Builder p(dims);
    const DType bf16 = DType::bf16;
    const int x = p.operand(bf16), y = p.operand(bf16), z = p.operand(bf16);
    const int product = p.op(LoopOp::multiply, x, y, -1, bf16);
    const int sum = p.op(LoopOp::add, product, z, -1, bf16);
    const int is_less = p.op(LoopOp::lt, sum, x, -1, DType::pred);
    p.output(p.op(LoopOp::select, is_less, p.op(LoopOp::tanh, y, -1, -1, bf16), sum, bf16));
    p.output(p.op(LoopOp::maximum, x, p.number(0.5F, bf16), -1, bf16));  // needs no rounding
    p.output(p.op(LoopOp::negate, y, -1, -1, bf16));
    p.output(product);
    compare(p.made(), "length " + std::to_string(Shape(bf16, dims).elements_count()));
  }
}

}  // namespace gspmd::loop_code_test
