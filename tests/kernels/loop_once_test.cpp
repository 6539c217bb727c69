#include "kernels/loop_once.h"

#include <random>

#include "kernels/loop_code.h"
#include "kernels/loop_code_case.h"

namespace gspmd::loop_code_test {
namespace {

// A few ops on operands that are whole, one row or one element, with one or two results.
Case small_case(std::mt19937& random) {
  const auto below = [&](unsigned n) { return int(random() % n); };
  static const std::vector<Dims> kDims{{}, {1}, {4}, {7}, {1, 1}, {2, 3}, {5, 1}, {64}, {200}};
  Case c;
  c.program.dims = kDims[size_t(below(unsigned(kDims.size())))];
  c.program.reduced.assign(c.program.dims.size(), false);
  const int operands = 1 + below(3);
  for (int i = 0; i < operands; ++i) {
    LoopValue v;
    v.operand = i;
    v.strides = row_major_strides(c.program.dims);
    const bool is_one = below(3) == 0;
    if (is_one) std::fill(v.strides.begin(), v.strides.end(), 0);
    Array data(DType::f32, is_one ? Dims{} : c.program.dims);
    for (int64_t e = 0; e < data.size(); ++e) data.set(e, below(19) - 9);
    c.operands.push_back(data);
    c.program.values.push_back(v);
  }
  LoopValue number;
  number.op = LoopOp::constant;
  number.constant = Array::scalar<float>(2.5F);
  c.program.values.push_back(number);
  const LoopOp ops[] = {LoopOp::add,     LoopOp::subtract, LoopOp::multiply,
                        LoopOp::maximum, LoopOp::abs,      LoopOp::copy};
  for (int i = 1 + below(4); i > 0; --i) {
    LoopValue v;
    v.op = ops[below(6)];
    const auto known = unsigned(c.program.values.size());
    v.a = below(known);
    if (v.op != LoopOp::abs && v.op != LoopOp::copy) v.b = below(known);
    c.program.values.push_back(v);
  }
  const int last = int(c.program.values.size()) - 1;
  for (int i = below(2); i >= 0; --i) {
    c.program.outputs.push_back({last - i, false});
    c.results.emplace_back(DType::f32, c.program.dims);
  }
  if (below(3) == 0) {  // a copy of the first
    c.program.outputs.push_back(c.program.outputs[0]);
    c.results.emplace_back(DType::f32, c.program.dims);
  }
  return c;
}

}  // namespace

TEST_CASE("loop once: gives what the whole loop gives", "[loop]") {
  std::mt19937 random(20261130);
  int in_code = 0, interpreted = 0;
  for (int round = 0; round < 600; ++round) {
    const Case c = small_case(random);
    const bool by_code = round % 2 == 0;
    const std::optional<PlannedLoop> planned =
        plan_loop(c.program, by_code ? loop_code_target(LoopTarget::best) : nullptr);
    if (!planned) continue;
    const std::optional<LoopOnce> once = LoopOnce::of(planned->plan);
    if (!once) continue;
    ++(by_code ? in_code : interpreted);
    PreparedKernel whole, direct;
    whole.run = [&](const KernelArgs& args) { run_loop(planned->plan, args); };
    direct.run = [&](const KernelArgs& args) { once->run(args); };
    whole.scratch_bytes = direct.scratch_bytes = loop_scratch_bytes(planned->plan);
    std::vector<int> in_place(c.results.size(), -1);
    if (c.operands[0].dims() == c.program.dims && round % 3 == 0) in_place[0] = 0;
    const auto want = run(whole, c, in_place, false), got = run(direct, c, in_place, false);
    INFO("round " << round << " by code " << by_code);
    for (size_t o = 0; o < want.size(); ++o) CHECK(differing(DType::f32, want[o], got[o]) == 0);
  }
  CHECK(in_code + interpreted > 300);
  CHECK(interpreted > 100);
}

TEST_CASE("loop once: is not for reductions, many tiles or elements that lie apart", "[loop]") {
  const auto is_once = [](const LoopProgram& program) {
    const std::optional<PlannedLoop> planned = plan_loop(program, nullptr);
    return planned && LoopOnce::of(planned->plan).has_value();
  };
  LoopProgram program;
  LoopValue x, twice;
  x.strides = {1};
  twice.op = LoopOp::add;
  twice.a = twice.b = 0;
  program.dims = {8};
  program.reduced = {false};
  program.values = {x, twice};
  program.outputs = {{1, false}};
  CHECK(is_once(program));
  program.dims = {1 << 16};
  CHECK_FALSE(is_once(program));
  program.dims = {8};
  program.values[0].strides = {3};
  CHECK_FALSE(is_once(program));
  program.values[0].strides = {1};
  LoopValue zero, sum;
  zero.op = LoopOp::constant;
  zero.constant = Array::scalar<float>(0);
  sum.op = LoopOp::reduce_sum;
  sum.a = 0;
  sum.b = 2;
  program.values = {x, twice, zero, sum};
  program.reduced = {true};
  program.outputs = {{3, true}};
  CHECK_FALSE(is_once(program));
}

}  // namespace gspmd::loop_code_test
