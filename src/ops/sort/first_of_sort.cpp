// Sorts of values with their indices, of which the first elements are read, as topk: it makes the
// indices itself, and nobody else reads the iota.
#include <utility>

#include "gspmd/ops/builders.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

// From so small a part of a line on, picking its first elements is cheaper than sorting it.
constexpr int64_t kFewFirst = 8;

// Whether `compare` orders by its first two parameters alone, as topk does; and which way.
std::optional<bool> largest_first(const Computation& compare, DType dtype) {
  if (!is_computable(dtype) || !(is_floating(dtype) || is_integer(dtype))) return std::nullopt;
  const auto keys = sort_keys(compare);
  if (!keys || keys->size() != 1 || !keys->front().left->is(Opcode::parameter)) return std::nullopt;
  const SortKey& key = keys->front();
  if (key.operands != std::vector<size_t>{0} || (is_floating(dtype) && !key.total_order))
    return std::nullopt;
  return key.descending;
}

bool is_index_of(const Node& iota, const Node& x) {
  return iota.is(Opcode::iota) && iota.shape.dtype == DType::s32 && x.rank() > 0 &&
         iota.attrs.index == x.rank() - 1 && iota.dims() == x.dims();
}

Node* topk_of(Node* x, int64_t k, bool largest) {
  Dims dims = x->dims();
  dims.back() = k;
  Attributes attrs;
  attrs.scalar.edit().k = k;
  attrs.scalar.edit().largest = largest;
  return x->parent().append(Opcode::topk,
                            Shape::tuple({Shape(x->shape.dtype, dims), Shape(DType::s32, dims)}),
                            {x}, std::move(attrs));
}

// The first elements of each line, all else of the operand.
bool takes_first(const Node& slice, int64_t k) {
  if (!slice.is(Opcode::slice)) return false;
  for (size_t d = 0; d < slice.dims().size(); ++d) {
    const bool last = d + 1 == slice.dims().size();
    if (slice.attrs.starts[d] != 0 || (!slice.attrs.strides.empty() && slice.attrs.strides[d] != 1))
      return false;
    if (slice.dims()[d] != (last ? k : slice.operand(0)->dims()[d])) return false;
  }
  return true;
}

}  // namespace

Node* topk_of_slice_of_sort(Node& node) {
  const Node& element = *node.operand(0);
  if (!element.is(Opcode::get_tuple_element) || !element.operand(0)->is(Opcode::sort))
    return nullptr;
  const Node& sort = *element.operand(0);
  if (sort.operands().size() != 2 || sort.is_root() || element.is_root()) return nullptr;
  Node* const x = sort.operands()[0];
  if (!is_index_of(*sort.operand(1), *x) || sort.attrs.dimensions[0] != x->rank() - 1)
    return nullptr;
  const int64_t k = node.dims().back();
  if (k * kFewFirst > x->dims().back()) return nullptr;
  for (const Node* reader : sort.users()) {
    if (!reader->is(Opcode::get_tuple_element) || reader->is_root()) return nullptr;
    for (const Node* user : reader->users())
      if (!takes_first(*user, k)) return nullptr;
  }
  const auto largest = largest_first(*sort.called.at(0), x->shape.dtype);
  if (!largest) return nullptr;
  return hlo::get_tuple_element(topk_of(x, k, *largest), element.attrs.index);
}

Node* topk_of_approximate(Node& node) {
  if (approximate_top_k_info(node) == nullptr || node.operands().size() != 4 ||
      node.called.size() != 1)
    return nullptr;
  Node* const x = node.operands()[0];
  if (x->shape.is_tuple || !is_index_of(*node.operand(1), *x)) return nullptr;
  Dims dims = leaf_shapes(node.shape)[0].dims;
  if (dims.size() != x->dims().size()) return nullptr;
  const int64_t k = std::exchange(dims.back(), x->dims().back());
  if (dims != x->dims() || k >= x->dims().back()) return nullptr;
  const auto largest = largest_first(*node.called[0], x->shape.dtype);
  return largest ? topk_of(x, k, *largest) : nullptr;
}

}  // namespace gspmd
