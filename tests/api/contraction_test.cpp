// The order in which einsum multiplies: against all orders.
#include "api/contraction.h"

#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;
using namespace gspmd::detail;

namespace {

using Order = std::vector<std::pair<size_t, size_t>>;

// The least cost of all orders that begin with `order`.
double least_cost(const std::vector<Labels>& operands, const Labels& result,
                  const LabelSizes& sizes, const std::vector<size_t>& open, Order order) {
  if (open.size() == 1) return contraction_cost(operands, result, sizes, order);
  double least = INFINITY;
  for (size_t i = 0; i < open.size(); ++i)
    for (size_t j = i + 1; j < open.size(); ++j) {
      Order longer = order;
      longer.emplace_back(open[i], open[j]);
      std::vector<size_t> rest;
      for (size_t k = 0; k < open.size(); ++k)
        if (k != i && k != j) rest.push_back(open[k]);
      rest.push_back(operands.size() + order.size());
      least = std::min(least, least_cost(operands, result, sizes, rest, longer));
    }
  return least;
}

struct Product {
  std::vector<Labels> operands;
  Labels result;
  LabelSizes sizes;
};

Product random_product(unsigned seed, size_t count) {
  std::mt19937 generator(seed);
  const auto below = [&](size_t n) { return generator() % n; };
  Product product;
  for (const char label : {'a', 'b', 'c', 'd', 'e', 'f'})
    product.sizes[label] = 1 + int64_t(below(9));
  for (size_t i = 0; i < count; ++i) {
    Labels labels;
    for (const auto& [label, size] : product.sizes)
      if (below(2) == 0) labels += label;
    product.operands.push_back(labels);
  }
  for (const auto& [label, size] : product.sizes)
    for (const Labels& labels : product.operands)
      if (has(labels, label) && !has(product.result, label) && below(4) == 0)
        product.result += label;
  return product;
}

}  // namespace

TEST_CASE("few operands are multiplied in the cheapest of all orders", "[api]") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const Product p = random_product(seed, 2 + seed % 4);
    std::vector<size_t> open(p.operands.size());
    for (size_t i = 0; i < open.size(); ++i) open[i] = i;
    const Order order = contraction_order(p.operands, p.result, p.sizes);
    INFO("seed " << seed);
    REQUIRE(order.size() + 1 == p.operands.size());
    CHECK(contraction_cost(p.operands, p.result, p.sizes, order) ==
          Approx(least_cost(p.operands, p.result, p.sizes, open, {})));
  }
}

TEST_CASE("a chain of matrices ending in a vector is multiplied from the vector", "[api]") {
  const LabelSizes sizes{{'a', 100}, {'b', 100}, {'c', 100}};
  CHECK(contraction_order({"ab", "bc", "c"}, "a", sizes) == Order{{1, 2}, {0, 3}});
}

TEST_CASE("many operands are multiplied by the cheapest pair each time", "[api]") {
  std::vector<Labels> chain;
  LabelSizes sizes;
  for (char label = 'a'; label < 'n'; ++label) {
    chain.push_back({label, char(label + 1)});
    sizes[label] = 20;
  }
  sizes['n'] = 1;
  REQUIRE(chain.size() > kExhaustive);
  const Order order = contraction_order(chain, "an", sizes);
  REQUIRE(order.size() + 1 == chain.size());
  // From the thin end on, each product is one of 20 x 20 x 1.
  CHECK(contraction_cost(chain, "an", sizes, order) == Approx(400 * 12));
}
