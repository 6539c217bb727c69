#pragma once

#include <optional>
#include <span>
#include <vector>

#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

Value evaluate_sort(const EvalContext& context);
Value evaluate_topk(const EvalContext& context);

// Lines put in order, those of keys as integers. Where nothing but slices of the first elements
// read a sort, no others are made.
PreparedKernel lower_sort(const Node& node);
PreparedKernel lower_topk(const Node& node);  // and custom-calls to it
// The first elements of n operands, in the order of a comparator of theirs along `dim`.
PreparedKernel lower_first_of_sort(const Node& node, size_t operands, int64_t dim);

FactorRule topk_factors(const Node& node);
int64_t topk_flops(const Node& node);

// How many a topk, or a custom-call to it, takes, and whether the largest; nullopt: of a call by a
// comparator that is no order of its elements.
struct TopKForm {
  int64_t k = 0;
  bool largest = true;
};
std::optional<TopKForm> top_k_form(const Node& node);
// The row of a custom-call to topk; nullptr: it calls something else.
const OpInfo* top_k_call_info(const Node& custom_call);
// The same of one to ApproxTopK or PartialReduce.
const OpInfo* approximate_top_k_info(const Node& custom_call);

// topk in place of a slice of the first elements of a sort of values with their indices, where
// nothing else reads the sort, and of an ApproxTopK of such: it makes the indices itself. nullptr:
// of anything else.
Node* topk_of_slice_of_sort(Node& slice);
Node* topk_of_approximate(Node& custom_call);

std::vector<ShardingProposal> sort_forward(const Node& node, CompletionMode mode);

// A sort of which only the first elements are read: those of each device, then those of all; and
// the slice that reads them.
std::optional<Partitioned> partition_sort(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_slice_of_sort(PartitionContext& context, Node& node);
// The k first of each device, then of those of all devices; of topk and of custom-calls to it.
std::optional<Partitioned> partition_topk(PartitionContext& context, Node& node);

// A comparator that compares one computed key after the other: key i is `left` of the left elements
// and the same computation of the right ones; a later key decides where the earlier ones are equal.
struct SortKey {
  const Node* left = nullptr;
  std::vector<size_t> operands;  // of the sort: those that it reads
  bool descending = false;
  bool total_order = false;  // floats: by total order, else NaN is unordered and -0 equals 0
};
// nullopt where the comparator is anything else.
std::optional<std::vector<SortKey>> sort_keys(const Computation& comparator);

// Elements of one type in storage, a step in bytes apart.
struct OrderedElements {
  const std::byte* first = nullptr;
  int64_t step = 0, count = 0;
  bool descending = false;
  bool total_order = false;  // else NaN has no order and zeros are equal
};
// Appends bits that compare as unsigned integers the way the elements of `dtype` compare. False for
// types without an order, and at a NaN that has none.
bool append_ordered(DType dtype, const OrderedElements& elements, std::vector<uint64_t>& out);

// A value of an ordered type behind which no other comes in that (total) order: padding. Of equal
// ones it comes last where it stands last.
Array last_of_order(DType dtype, bool descending);

// The indices of the k least keys in order, of equal ones the first.
std::vector<int64_t> first_of_order(const std::vector<uint64_t>& keys, int64_t k);

// The stable order of `count` keys of several columns, the first column first: column c holds keys
// [c][0, count).
std::vector<int64_t> stable_order(std::span<const std::vector<uint64_t>> columns, int64_t count);

}  // namespace gspmd
