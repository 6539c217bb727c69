// Bitcasts between layouts. A bitcast keeps the bits in the order in which they lie; everything
// else here is row-major, so that one whose layouts are not is written as the transposes that it
// is.

#include <algorithm>
#include <charconv>

#include "ir/module_parser.h"
#include "ir/parse_shape.h"

namespace gspmd {
namespace {

// The dims from the slowest to the fastest: the reverse of "{0,1:T(8,128)}"; tiles do not count.
Dims major_to_minor(const Shape& shape) {
  Dims dims;
  const char* at = shape.layout->data() + (shape.layout.empty() ? 0 : 1);
  const char* const end = shape.layout->data() + shape.layout.size();
  for (int64_t dim = 0; at < end; ++at) {
    const auto [next, error] = std::from_chars(at, end, dim);
    if (*at == ':' || *at == '}') break;
    if (error != std::errc{}) continue;
    dims.push_back(dim);
    at = next - 1;
  }
  if (dims.empty())
    for (int64_t d = shape.rank(); d-- > 0;) dims.push_back(d);
  std::reverse(dims.begin(), dims.end());
  return dims;
}

// Whether the elements lie in the order of the dims; where dims of one element stand does not
// matter.
bool is_row_major(const Shape& shape) {
  Dims dims = major_to_minor(shape);
  std::erase_if(dims, [&](int64_t d) { return shape.dims[static_cast<size_t>(d)] == 1; });
  return std::is_sorted(dims.begin(), dims.end());
}

Dims permuted(const Dims& dims, const Dims& order) {
  Dims result;
  for (const int64_t d : order) result.push_back(dims[static_cast<size_t>(d)]);
  return result;
}

Dims inverse(const Dims& order) {
  Dims result(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    result[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return result;
}

}  // namespace

bool ModuleParser::reorders(const Instruction& bitcast) {
  if (!bitcast.shape || bitcast.shape->is_tuple || bitcast.operands.size() != 1) return false;
  const Shape& x = bitcast.operands[0].node->shape;
  if (x.is_tuple) return false;
  if (x == *bitcast.shape && major_to_minor(x) == major_to_minor(*bitcast.shape)) return false;
  return !is_row_major(x) || !is_row_major(*bitcast.shape);
}

// x of f32[2,3]{0,1} lies as f32[3,2] does: transposed to that, reinterpreted, and transposed from
// the order in which the result lies; one transpose where that is all.
Node* ModuleParser::build_bitcast(Instruction& bitcast) {
  Node* value = bitcast.operands[0].node;
  const Shape& shape = *bitcast.shape;
  const Dims from = major_to_minor(value->shape), to = major_to_minor(shape);
  const Shape lies(value->shape.dtype, permuted(value->dims(), from));
  const Shape result(shape.dtype, permuted(shape.dims, to));
  const bool transposed = lies == result;
  const bool last_is_bitcast = !transposed && is_row_major(shape);
  const auto add = [&](Opcode opcode, const Shape& type, Dims order, bool last) {
    Attributes attrs;
    attrs.dimensions = std::move(order);
    value = append(last ? std::string(bitcast.name) : made_name(bitcast, "order"), opcode, type,
                   {value}, std::move(attrs), bitcast.position);
    if (!last) scope_.made.push_back(value);
  };
  if (!transposed) {
    if (!is_row_major(value->shape)) add(Opcode::transpose, lies, from, false);
    add(Opcode::bitcast, last_is_bitcast ? shape : result, {}, last_is_bitcast);
  }
  if (!last_is_bitcast)
    add(Opcode::transpose, shape, transposed ? permuted(from, inverse(to)) : inverse(to), true);
  value->attrs.other = std::move(bitcast.attrs.other);
  return value;
}

}  // namespace gspmd
