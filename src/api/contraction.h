#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/ir/module_fwd.h"

namespace gspmd::detail {

using Labels = std::string;  // one letter per dim

// A value whose dims have names; equal names are one dim.
struct Labelled {
  Node* node = nullptr;
  Labels labels;
};

bool has(const Labels& labels, char label);
// Dims in the order of `labels`, which are those of x in another order.
Node* arrange(const Labelled& x, const Labels& labels);
// Sums over the labels that are not in `others`.
Labelled sum_lonely(Labelled x, const Labels& others);
// The sum of products over the labels that both have and the result has not; every other label is
// in the result.
Node* contract(Labelled a, Labelled b, const Labels& result);

using LabelSizes = std::map<char, int64_t>;
// The labels of the product of a and b that are in `others`: those of both, of a, of b.
Labels product_labels(const Labels& a, const Labels& b, const Labels& others);
// Which two values are multiplied in each step; the product of step i is value operands + i. The
// least number of multiplications for up to kExhaustive operands, else the cheapest pair each time.
constexpr size_t kExhaustive = 9;
std::vector<std::pair<size_t, size_t>> contraction_order(const std::vector<Labels>& operands,
                                                         const Labels& result,
                                                         const LabelSizes& sizes);
// Multiplications of an order.
double contraction_cost(const std::vector<Labels>& operands, const Labels& result,
                        const LabelSizes& sizes,
                        const std::vector<std::pair<size_t, size_t>>& order);

}  // namespace gspmd::detail
