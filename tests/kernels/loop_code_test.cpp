// Machine code of loop programs against their interpreter: bit for bit, NaN equal to NaN.
#include "kernels/loop_code.h"

#include <random>

#include "kernels/loop_plan.h"
#include "load.h"
#include "loop_code_case.h"

namespace gspmd::loop_code_test {
namespace {

float special(uint64_t i) {
  static const float values[] = {NAN,    INFINITY,      -INFINITY,      -0.0f,        0.0f,
                                 1e-40f, -3e-42f,       3e38f,          -3e38f,       1e-38f,
                                 88.5f,  -87.5f,        -103.97f,       1.0f,         -1.0f,
                                 0.5f,   2147483648.0f, -2147483648.0f, 4294967296.0f};
  return values[i % std::size(values)];
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }

  Case make() {
    const int64_t rank = below(4);
    static const int64_t sizes[] = {1, 2, 3, 15, 16, 17, 70, 131, 200, 333, 1025, 2500};
    int64_t total = 1;
    for (int64_t d = 0; d < rank; ++d) {
      c_.program.dims.push_back(sizes[below(total > 10000 ? 3 : total > 1000 ? 7 : 12)]);
      total *= c_.program.dims.back();
      c_.program.reduced.push_back(false);
    }
    reducing_ = below(3) != 0;
    for (int64_t d = 0; d < rank && reducing_; ++d) c_.program.reduced[size_t(d)] = below(2) == 1;
    specials_ = below(3) == 0;
    for (const DType dtype : {DType::f32, DType::s32, DType::u32, DType::pred}) {
      LoopValue v;
      v.op = LoopOp::constant;
      v.dtype = dtype;
      v.constant = Array::full(Shape(dtype, {}), dtype == DType::f32 ? 0.25 : 1.0);
      push(v, 0);
    }
    for (int64_t i = 0; i <= below(5); ++i) add_operand();
    const int64_t ops = 1 + below(below(4) == 0 ? 60 : 14);
    for (int64_t i = 0; i < ops; ++i) add_op();
    for (int64_t i = 0; i <= below(4); ++i) add_output();
    return std::move(c_);
  }

  // An operand of the same form per result, where nothing reads that operand after the result.
  std::vector<int> places(const Case& c) {
    std::vector<int> result(c.results.size(), -1);
    for (size_t o = 0; o < c.results.size(); ++o) {
      const LoopOutput& output = c.program.outputs[o];
      if (output.reduced) continue;
      for (size_t v = 0; v < c.program.values.size() && result[o] < 0; ++v)
        if (may_take(c.program, output.value, int(v)) && below(4) != 0) {
          const int operand = int(c.program.values[v].operand);
          if (std::count(result.begin(), result.end(), operand) == 0) result[o] = operand;
        }
    }
    return result;
  }

 private:
  static bool may_take(const LoopProgram& p, int output, int operand) {
    const LoopValue& from = p.values[size_t(operand)];
    if (from.op != LoopOp::operand || output <= operand) return false;
    if (from.strides != row_major_strides(p.dims)) return false;
    if (dtype_size(from.dtype) != dtype_size(p.values[size_t(output)].dtype)) return false;
    for (size_t v = size_t(output) + 1; v < p.values.size(); ++v)
      for (const int input : {p.values[v].a, p.values[v].b, p.values[v].c})
        if (input == operand) return false;
    return std::none_of(p.outputs.begin(), p.outputs.end(),
                        [&](const LoopOutput& o) { return o.value == operand; });
  }
  int push(LoopValue v, int space) {
    c_.program.values.push_back(std::move(v));
    spaces_.push_back(space);
    return int(c_.program.values.size()) - 1;
  }
  void add_operand() {
    static const DType types[] = {DType::f32, DType::f32,  DType::f32,  DType::f32, DType::s32,
                                  DType::u32, DType::pred, DType::bf16, DType::s64, DType::f16};
    LoopValue v;
    v.dtype = types[below(10)];
    v.operand = int64_t(c_.operands.size());
    const int kind = int(below(4));  // dense twice, broadcast along some dims, transposed
    std::vector<size_t> order;
    for (size_t d = 0; d < c_.program.dims.size(); ++d) order.push_back(d);
    if (kind == 2) std::shuffle(order.begin(), order.end(), random_);
    v.strides.assign(order.size(), 0);
    int64_t stride = 1;
    for (size_t i = order.size(); i-- > 0;) {
      if (kind == 1 && below(2) == 1) continue;
      v.strides[order[i]] = stride;
      stride *= c_.program.dims[order[i]];
    }
    Array data(v.dtype, {stride});
    for (int64_t i = 0; i < stride; ++i) data.set(i, number(v.dtype));
    c_.operands.push_back(data);
    const int at = push(v, 0);
    if (v.dtype != DType::bf16 && v.dtype != DType::f16) return;
    LoopValue wide;  // so that f32 ops read it
    wide.op = LoopOp::convert;
    wide.a = at;
    push(wide, 0);
  }
  double number(DType dtype) {
    if (dtype == DType::pred) return double(below(2));
    if (dtype == DType::u32) return double(below(5) == 0 ? 4294967295 - below(9) : below(40));
    if (dtype == DType::s32 || dtype == DType::s64)
      return double(below(9) == 0 ? -2147483648 + below(3) : below(70) - 35);
    if (specials_ && below(3) == 0) return special(random_());
    return double(below(20001) - 10000) / 1500;
  }
  int pick(DType dtype, int space) {
    for (int tries = 0; tries < 60; ++tries) {  // rather late ones
      const auto size = int64_t(c_.program.values.size());
      const int v = int(std::max(below(size), below(size)));
      if (c_.program.values[size_t(v)].dtype == dtype && spaces_[size_t(v)] <= space) return v;
    }
    return dtype == DType::f32 ? 0 : dtype == DType::s32 ? 1 : dtype == DType::u32 ? 2 : 3;
  }
  int space_of(const LoopValue& v) const {
    int space = 0;
    for (const int input : {v.a, v.b, v.c})
      if (input >= 0) space = std::max(space, spaces_[size_t(input)]);
    return space;
  }
  void finish(LoopValue v) { push(v, space_of(v)); }

  LoopOp any(std::initializer_list<LoopOp> ops) { return ops.begin()[below(int64_t(ops.size()))]; }
  LoopOp unary_of(DType dtype) {
    if (dtype == DType::pred) return any({LoopOp::not_, LoopOp::copy});
    if (dtype != DType::f32)
      return any({LoopOp::negate, LoopOp::abs, LoopOp::sign, LoopOp::not_, LoopOp::copy});
    return any({LoopOp::negate, LoopOp::abs, LoopOp::sign, LoopOp::exp, LoopOp::expm1, LoopOp::log,
                LoopOp::log1p, LoopOp::tanh, LoopOp::logistic, LoopOp::sqrt, LoopOp::rsqrt,
                LoopOp::floor, LoopOp::ceil, LoopOp::round_to_bf16, LoopOp::round_to_f16,
                LoopOp::sine, LoopOp::erf, LoopOp::round_nearest_even, LoopOp::copy});
  }
  LoopOp binary_of(DType dtype) {
    if (dtype == DType::pred)
      return any({LoopOp::and_, LoopOp::or_, LoopOp::xor_, LoopOp::add, LoopOp::multiply,
                  LoopOp::maximum, LoopOp::minimum});
    if (dtype != DType::f32)
      return any({LoopOp::add, LoopOp::subtract, LoopOp::multiply, LoopOp::divide,
                  LoopOp::remainder, LoopOp::maximum, LoopOp::minimum, LoopOp::and_, LoopOp::or_,
                  LoopOp::xor_, LoopOp::shift_left, LoopOp::shift_right_logical,
                  LoopOp::shift_right_arithmetic});
    return any({LoopOp::add, LoopOp::subtract, LoopOp::multiply, LoopOp::divide, LoopOp::maximum,
                LoopOp::minimum, LoopOp::add, LoopOp::multiply});
  }
  void add_op() {
    static const DType types[] = {DType::f32, DType::f32, DType::f32, DType::f32,
                                  DType::s32, DType::u32, DType::pred};
    LoopValue v;
    v.dtype = types[below(7)];
    const int space = int(below(2));
    const int64_t kind = below(reducing_ ? 14 : 11);
    if (kind < 3) {
      v.op = unary_of(v.dtype);
      v.a = pick(v.dtype, space);
    } else if (kind < 6) {
      v.op = binary_of(v.dtype);
      v.a = pick(v.dtype, space);
      v.b = pick(v.dtype, space);
    } else if (kind == 6) {
      v.op = any({LoopOp::eq, LoopOp::ne, LoopOp::ge, LoopOp::gt, LoopOp::le, LoopOp::lt});
      v.a = pick(v.dtype, space);
      v.b = pick(v.dtype, space);
      v.dtype = DType::pred;
    } else if (kind == 7) {
      v.op = LoopOp::select;
      v.a = pick(DType::pred, space);
      v.b = pick(v.dtype, space);
      v.c = pick(v.dtype, space);
    } else if (kind == 8 && v.dtype != DType::pred) {
      v.op = LoopOp::clamp;
      v.a = pick(v.dtype, space);
      v.b = pick(v.dtype, space);
      v.c = pick(v.dtype, space);
    } else if (kind == 9 && !c_.program.dims.empty()) {
      if (v.dtype == DType::pred) v.dtype = DType::s32;
      v.op = LoopOp::iota;
      v.operand = below(int64_t(c_.program.dims.size()));
    } else if (kind == 10) {
      static const DType to[] = {DType::f32,  DType::s32,  DType::u32,
                                 DType::pred, DType::bf16, DType::f16};
      v.op = LoopOp::convert;
      v.a = pick(below(9) == 0 ? DType::s64 : v.dtype, space);
      v.dtype = to[below(6)];
    } else if (kind > 10) {
      return add_reduce(v.dtype);
    } else {
      return;
    }
    finish(v);
  }
  void add_reduce(DType dtype) {
    LoopValue v;
    v.dtype = dtype;
    if (dtype == DType::pred)
      v.op = any({LoopOp::reduce_and, LoopOp::reduce_or, LoopOp::reduce_xor});
    else if (dtype == DType::f32)
      v.op = any({LoopOp::reduce_sum, LoopOp::reduce_sum, LoopOp::reduce_max, LoopOp::reduce_min,
                  LoopOp::reduce_product});
    else
      v.op = any({LoopOp::reduce_sum, LoopOp::reduce_max, LoopOp::reduce_min, LoopOp::reduce_and,
                  LoopOp::reduce_or, LoopOp::reduce_xor, LoopOp::reduce_product});
    v.a = pick(dtype, below(2) == 0 ? 0 : 1);
    v.b = dtype == DType::f32 ? 0 : dtype == DType::s32 ? 1 : dtype == DType::u32 ? 2 : 3;
    push(v, 1);
  }
  void add_output() {
    LoopOutput o;
    o.value = int(std::max(below(int64_t(c_.program.values.size())),
                           below(int64_t(c_.program.values.size()))));
    o.reduced = c_.program.values[size_t(o.value)].op >= LoopOp::reduce_sum;
    Dims dims;
    for (size_t d = 0; d < c_.program.dims.size(); ++d)
      if (!o.reduced || !c_.program.reduced[d]) dims.push_back(c_.program.dims[d]);
    c_.program.outputs.push_back(o);
    c_.results.emplace_back(c_.program.values[size_t(o.value)].dtype, dims);
  }

  std::mt19937_64 random_;
  Case c_;
  std::vector<int> spaces_;
  bool reducing_ = false, specials_ = false;
};

}  // namespace

TEST_CASE("loop code: random programs give what the interpreter gives, bit by bit", "[loop]") {
  const LoopCodeStats before = loop_code_stats();
  int64_t ran = 0;
  for (int64_t seed = 1; seed <= random_load(900); ++seed) {
    Generator generator{uint64_t(seed)};
    const Case c = generator.make();
    const std::vector<int> nowhere(c.results.size(), -1), places = generator.places(c);
    const PreparedKernel plain = prepare_loop(c.program, {.machine_code = false});
    for (const LoopTarget target : targets()) {
      const PreparedKernel code = prepare_loop(c.program, {.target = target});
      REQUIRE(bool(code.run) == bool(plain.run));
      if (!code.run) continue;
      ++ran;
      const auto want = run(plain, c, nowhere, false);
      const auto got = run(code, c, nowhere, true), in_place = run(code, c, places, false);
      for (size_t o = 0; o < want.size(); ++o) {
        INFO("target " << int(target) << " seed " << seed << " output " << o << " "
                       << to_string(c.results[o]));
        REQUIRE(differing(c.results[o].dtype, want[o], got[o]) == 0);
        REQUIRE(differing(c.results[o].dtype, want[o], in_place[o]) == 0);
      }
    }
  }
  CHECK(ran > random_load(500));
  const LoopCodeStats after = loop_code_stats();
  const int64_t made = after.generated + after.shared - before.generated - before.shared;
  const bool has_any = made > 0;  // else this machine runs none
  if (has_any) CHECK(made > ran * 9 / 10);
}

TEST_CASE("loop code: what becomes code for one target becomes code for the other", "[loop]") {
  int64_t made = 0;
  for (int64_t seed = 1; seed <= random_load(900); ++seed) {
    const Case c = Generator{uint64_t(seed)}.make();
    const auto wide = plan_loop(c.program, &kAvx512Code), narrow = plan_loop(c.program, &kAvx2Code);
    INFO("seed " << seed);
    REQUIRE(wide.has_value() == narrow.has_value());
    if (!wide) continue;
    ++made;
    const auto functions = [](const LoopPlan& plan) {
      int64_t count = 0;
      for (const auto* list : {&plan.body, &plan.post})
        for (const LoopInstruction& in : *list) count += in.kind == LoopInstruction::code;
      return count;
    };
    REQUIRE(functions(wide->plan) == functions(narrow->plan));
  }
  CHECK(made > random_load(500));
}

TEST_CASE("loop code: is refused for what the machine has not", "[loop]") {
  for (const LoopTarget target : {LoopTarget::avx2, LoopTarget::avx512}) {
    if (runs_loop_target(target)) continue;
    CHECK_THROWS_WITH(prepare_loop(LoopProgram{}, {.target = target}),
                      Catch::Contains("this machine does not run the machine code"));
  }
}

TEST_CASE("loop code: functions of mathematics give the interpreter's bits on all kinds of numbers",
          "[loop]") {
  std::vector<float> x;
  for (uint64_t i = 0; i < 19; ++i) x.push_back(special(i));
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 65521)
    x.push_back(std::bit_cast<float>(uint32_t(bits)));
  for (int i = -20000; i <= 20000; ++i) x.push_back(float(i) / 150);
  const auto n = int64_t(x.size());
  for (const LoopOp op :
       {LoopOp::exp, LoopOp::expm1, LoopOp::log, LoopOp::log1p, LoopOp::tanh, LoopOp::logistic,
        LoopOp::erf, LoopOp::sqrt, LoopOp::rsqrt, LoopOp::floor, LoopOp::ceil,
        LoopOp::round_nearest_even, LoopOp::sign, LoopOp::is_finite, LoopOp::round_to_bf16}) {
    Case c;
    c.program.dims = {n};
    LoopValue in, v;
    in.strides = {1};
    v.op = op;
    v.a = 0;
    if (op == LoopOp::is_finite) v.dtype = DType::pred;
    c.program.values = {in, v};
    c.program.outputs = {{1, false}};
    c.operands = {Array::of<float>({n}, x)};
    c.results = {Shape(v.dtype, {n})};
    const auto want = run(prepare_loop(c.program, {.machine_code = false}), c, {-1}, false);
    for (const LoopTarget target : targets()) {
      const auto got = run(prepare_loop(c.program, {.target = target}), c, {-1}, false);
      INFO("target " << int(target) << " op " << int(op));
      CHECK(differing(v.dtype, want[0], got[0]) == 0);
    }
  }
}

TEST_CASE(
    "loop code: more values than registers, more operands than pointers, more sums than lanes",
    "[loop]") {
  constexpr int kOperands = 40;
  for (const bool rows : {true, false}) {
    Case c;
    c.program.dims = {9, 403};
    c.program.reduced = {!rows, rows};
    const auto push = [&](LoopValue v) {
      c.program.values.push_back(v);
      return int(c.program.values.size()) - 1;
    };
    const auto op = [&](LoopOp o, int a, int b) {
      LoopValue v;
      v.op = o;
      v.a = a;
      v.b = b;
      return push(v);
    };
    LoopValue number;
    number.op = LoopOp::constant;
    number.constant = Array::scalar<float>(0.75F);
    const int factor = push(number);
    std::vector<int> products;
    for (int i = 0; i < kOperands; ++i) {
      LoopValue v;
      v.operand = i;
      v.strides = {403, 1};
      Array data(DType::f32, {9, 403});
      for (int64_t e = 0; e < data.size(); ++e) data.set(e, double((e * (i + 3)) % 101) / 9 - 4);
      c.operands.push_back(data);
      products.push_back(op(LoopOp::multiply, push(v), factor));
    }
    int total = factor;
    for (const int product : products) total = op(LoopOp::subtract, product, total);
    c.program.outputs.push_back({total, false});
    c.results.emplace_back(DType::f32, Dims{9, 403});
    for (int i = 0; i < 8; ++i) {
      const int first = products[size_t(i)];
      c.program.outputs.push_back(
          {op(i % 3 == 0 ? LoopOp::reduce_max : LoopOp::reduce_sum, first, factor), true});
      c.results.emplace_back(DType::f32, Dims{rows ? 9 : 403});
    }
    const std::vector<int> nowhere(c.results.size(), -1);
    const auto want = run(prepare_loop(c.program, {.machine_code = false}), c, nowhere, false);
    for (const LoopTarget target : targets()) {
      const LoopCodeStats before = loop_code_stats();
      const auto got = run(prepare_loop(c.program, {.target = target}), c, nowhere, false);
      for (size_t o = 0; o < want.size(); ++o) {
        INFO("target " << int(target) << " rows " << rows << " output " << o);
        CHECK(differing(DType::f32, want[o], got[o]) == 0);
      }
      if (before.generated > 0) CHECK(loop_code_stats().generated == before.generated + 1);
    }
  }
}

TEST_CASE("loop code: hundreds of single elements between passes", "[loop]") {
  constexpr int64_t kRows = 3, kElements = 77;
  Case c;
  c.program.dims = {kRows, kElements};
  c.program.reduced = {false, true};
  LoopValue x, start, v;
  x.strides = {kElements, 1};
  start.op = LoopOp::constant;
  start.constant = Array::scalar<float>(0.5F);
  v.op = LoopOp::reduce_sum;
  v.a = 0;
  v.b = 1;
  c.program.values = {x, start, v};
  for (int i = 0; i < 900; ++i) {
    v.op = i % 2 == 0 ? LoopOp::add : LoopOp::multiply;
    v.a = 2 + i;
    c.program.values.push_back(v);
  }
  v.op = LoopOp::subtract;
  v.a = 0;
  v.b = int(c.program.values.size()) - 1;
  c.program.values.push_back(v);
  c.program.outputs = {{v.b + 1, false}};
  c.operands.emplace_back(DType::f32, Dims{kRows * kElements});
  for (int64_t e = 0; e < kRows * kElements; ++e) c.operands[0].set(e, double(e % 19));
  c.results.emplace_back(DType::f32, c.program.dims);
  const auto want = run(prepare_loop(c.program, {.machine_code = false}), c, {-1}, false);
  for (const LoopTarget target : targets()) {
    const auto got = run(prepare_loop(c.program, {.target = target}), c, {-1}, false);
    CHECK(differing(DType::f32, want[0], got[0]) == 0);
  }
  CHECK(plan_loop(c.program, &kAvx512Code).has_value());
  CHECK(plan_loop(c.program, &kAvx2Code).has_value());
}

// More places than pointer registers: conditions and values both come by the one free pointer.
TEST_CASE("loop code: selects among more values in memory than there are pointers", "[loop]") {
  constexpr int kChoices = 12;
  constexpr int64_t kElements = 403;
  Case c;
  c.program.dims = {kElements};
  const auto operand = [&](DType dtype, int salt) {
    LoopValue v;
    v.dtype = dtype;
    v.operand = int64_t(c.operands.size());
    v.strides = {1};
    Array data(dtype, {kElements});
    for (int64_t e = 0; e < kElements; ++e)
      data.set(e, dtype == DType::pred ? double((e + salt) % 3 == 0) : double(1000 * salt + e));
    c.operands.push_back(data);
    c.program.values.push_back(v);
    return int(c.program.values.size()) - 1;
  };
  int chosen = operand(DType::f32, 0);
  std::vector<std::pair<int, int>> choices;
  for (int i = 1; i <= kChoices; ++i)
    choices.emplace_back(operand(DType::pred, i), operand(DType::f32, i));
  for (const auto& [condition, value] : choices) {
    LoopValue v;
    v.op = LoopOp::select;
    v.a = condition;
    v.b = value;
    v.c = chosen;
    c.program.values.push_back(v);
    chosen = int(c.program.values.size()) - 1;
  }
  c.program.outputs = {{chosen, false}};
  c.results.emplace_back(DType::f32, Dims{kElements});
  const auto want = run(prepare_loop(c.program, {.machine_code = false}), c, {-1}, false);
  for (const LoopTarget target : targets()) {
    const auto got = run(prepare_loop(c.program, {.target = target}), c, {-1}, false);
    INFO("target " << int(target));
    CHECK(differing(DType::f32, want[0], got[0]) == 0);
  }
}

// In programs with 16-bit floats, which are rewritten in f32.
TEST_CASE("loop code: a result takes the place of what a conversion to the same type has read",
          "[loop]") {
  constexpr int64_t kElements = 403;
  Case c;
  c.program.dims = {kElements};
  LoopValue x, half, same, wide, sum;
  x.strides = half.strides = {1};
  half.operand = 1;
  half.dtype = DType::bf16;
  same.op = wide.op = LoopOp::convert;
  same.a = 0;
  wide.a = 1;
  sum.op = LoopOp::add;
  sum.a = 2;
  sum.b = 3;
  c.program.values = {x, half, same, wide, sum};
  c.program.outputs = {{3, false}, {4, false}};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    c.operands.emplace_back(dtype, Dims{kElements});
    for (int64_t e = 0; e < kElements; ++e)
      c.operands.back().set(e, double(e % 100) + dtype_size(dtype));
    c.results.emplace_back(DType::f32, Dims{kElements});
  }
  const PreparedKernel plain = prepare_loop(c.program, {.machine_code = false});
  const auto want = run(plain, c, {-1, -1}, false);
  CHECK(differing(DType::f32, want[1], run(plain, c, {0, -1}, false)[1]) == 0);
  for (const LoopTarget target : targets()) {
    const PreparedKernel code = prepare_loop(c.program, {.target = target});
    CHECK(differing(DType::f32, want[1], run(code, c, {0, -1}, false)[1]) == 0);
  }
}

TEST_CASE("loop code: equal programs share it", "[loop]") {
  LoopProgram p;
  p.dims = {1000};
  LoopValue in, v;
  in.strides = {1};
  v.op = LoopOp::exp;
  v.a = 0;
  p.values = {in, v, v};
  p.values[2].a = 1;
  p.outputs = {{2, false}};
  const PreparedKernel first = prepare_loop(p);
  const LoopCodeStats before = loop_code_stats();
  if (before.generated == 0) return;  // no machine code here
  const PreparedKernel second = prepare_loop(p);
  p.dims = {3000};
  const PreparedKernel longer = prepare_loop(p);
  const LoopCodeStats after = loop_code_stats();
  CHECK(after.shared == before.shared + 2);
  CHECK(after.generated == before.generated);
  CHECK(after.bytes == before.bytes);
}

}  // namespace gspmd::loop_code_test
