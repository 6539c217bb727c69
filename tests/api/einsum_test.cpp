#include <map>
#include <set>

#include "api/support.h"
#include "gspmd/ir/module.h"
#include "load.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

// Every combination of label values, the obvious way.
Array naive_einsum(const std::vector<std::string>& operands, const std::string& result,
                   const std::vector<Array>& arrays) {
  std::map<char, int64_t> sizes;
  for (size_t o = 0; o < operands.size(); ++o)
    for (size_t i = 0; i < operands[o].size(); ++i)
      sizes[operands[o][i]] = arrays[o].dim(int64_t(i));
  Dims dims;
  for (const char c : result) dims.push_back(sizes[c]);
  Array out(arrays[0].dtype(), dims);
  std::map<char, int64_t> at;
  const auto offset = [&](const std::string& labels) {
    int64_t position = 0;
    for (const char c : labels) position = position * sizes[c] + at[c];
    return position;
  };
  const std::vector<std::pair<char, int64_t>> labels(sizes.begin(), sizes.end());
  std::function<void(size_t)> loop = [&](size_t depth) {
    if (depth < labels.size()) {
      for (int64_t i = 0; i < labels[depth].second; ++i) {
        at[labels[depth].first] = i;
        loop(depth + 1);
      }
      return;
    }
    double product = 1;
    for (size_t o = 0; o < operands.size(); ++o) product *= arrays[o].at(offset(operands[o]));
    out.set(offset(result), out.at(offset(result)) + product);
  };
  loop(0);
  return out;
}

std::string random_labels(std::mt19937& generator, int count, bool distinct) {
  std::string labels;
  while (int(labels.size()) < count) {
    const char c = char('a' + generator() % 5);
    if (distinct && labels.find(c) != std::string::npos) continue;
    labels += c;
  }
  return labels;
}

std::string random_result(std::mt19937& generator, const std::string& from) {
  std::string labels;
  std::set<char> left(from.begin(), from.end());
  while (!left.empty() && generator() % 4 != 0) {
    auto chosen = left.begin();
    std::advance(chosen, long(generator() % left.size()));
    labels += *chosen;
    left.erase(chosen);
  }
  return labels;
}

Array operand_for(const std::string& labels, unsigned seed) {
  Dims dims;
  for (const char c : labels) dims.push_back(1 + (c - 'a' + 1) % 4);
  return random_integers({DType::f64, dims}, seed, -3, 3);
}

}  // namespace

// Literal specs are checked by these when a program is compiled.
static_assert(detail::einsum_spec_problem("bsm,mnd->bsnd", 2) == detail::SpecProblem::none);
static_assert(detail::einsum_spec_problem("->", 1) == detail::SpecProblem::none);
static_assert(detail::einsum_spec_problem("bsm,mnd", 2) != detail::SpecProblem::none);
static_assert(detail::einsum_spec_problem("bsm,mnd->bsnx", 2) != detail::SpecProblem::none);
static_assert(detail::einsum_spec_problem("bsm,mnd->bb", 2) != detail::SpecProblem::none);
static_assert(detail::einsum_spec_problem("bsm->b", 2) != detail::SpecProblem::none);
static_assert(detail::einsum_spec_problem("b m,mn->bn", 2) != detail::SpecProblem::none);

TEST_CASE("einsum of 150 random two-operand specs equals nested loops", "[api]") {
  std::mt19937 generator(7);
  for (int64_t trial = 0; trial < random_load(150); ++trial) {
    const std::string a = random_labels(generator, int(generator() % 5), generator() % 4 != 0);
    const std::string b = random_labels(generator, int(generator() % 4), generator() % 4 != 0);
    const std::string result = random_result(generator, a + b);
    const std::string spec = a + "," + b + "->" + result;
    INFO("trial " << trial << ": " << spec);
    const Array x = operand_for(a, trial);
    const Array y = operand_for(b, trial + 1000);
    const Array seen =
        run([&](Tensor s, Tensor t) { return einsum(runtime_spec(spec), s, t); }, x, y);
    const Array expected = naive_einsum({a, b}, result, {x, y});
    REQUIRE(seen.dims() == expected.dims());
    REQUIRE(values(seen) == values(expected));
  }
}

TEST_CASE("einsum of random one-operand specs equals nested loops", "[api]") {
  std::mt19937 generator(11);
  for (int64_t trial = 0; trial < random_load(40); ++trial) {
    const std::string a = random_labels(generator, int(generator() % 5), false);
    const std::string result = random_result(generator, a);
    INFO("trial " << trial << ": " << a << "->" << result);
    const Array x = operand_for(a, trial);
    const Array seen = run([&](Tensor t) { return einsum(runtime_spec(a + "->" + result), t); }, x);
    REQUIRE(values(seen) == values(naive_einsum({a}, result, {x})));
  }
}

TEST_CASE("einsum of a contraction is one dot, transposed only where the order needs it", "[api]") {
  const Shape x(DType::f32, {2, 3, 4}), w(DType::f32, {4, 5, 6});
  const auto count = [](const Traced& traced, Opcode opcode) {
    int64_t n = 0;
    for (const auto& node : traced.module().entry()->nodes()) n += node->is(opcode);
    return n;
  };
  const Traced plain =
      trace([](Tensor a, Tensor b) { return einsum("bsm,mnd->bsnd", a, b); }, x, w);
  CHECK(count(plain, Opcode::dot) == 1);
  CHECK(count(plain, Opcode::transpose) == 0);
  const Traced swapped =
      trace([](Tensor a, Tensor b) { return einsum("bsm,mnd->ndbs", a, b); }, x, w);
  CHECK(count(swapped, Opcode::dot) == 1);
  CHECK(count(swapped, Opcode::transpose) == 0);
  const Traced turned =
      trace([](Tensor a, Tensor b) { return einsum("bsm,mnd->bnsd", a, b); }, x, w);
  CHECK(count(turned, Opcode::dot) == 1);
  CHECK(count(turned, Opcode::transpose) == 1);
}
