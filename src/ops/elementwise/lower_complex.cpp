// Complex numbers as pairs of real ones: parts are copied in steps of two, sums go through both
// alike, products and sizes are loops that read and write them apart, quotients of c64 a kernel.
#include <algorithm>
#include <limits>

#include "gspmd/kernels/loop_program.h"
#include "gspmd/kernels/strided_copy.h"
#include "kernels/complex_divide.h"
#include "ops/common/loop_lowering.h"
#include "ops/elementwise/elementwise.h"

namespace gspmd {
namespace {

DType part_type(DType dtype) { return dtype == DType::c64 ? DType::f32 : DType::f64; }

// Values of a loop over the elements of arrays of the same dims.
class PartLoop {
 public:
  explicit PartLoop(int64_t elements) { program_.dims = {elements}; }

  int operand(int64_t number, DType part, int64_t step, int64_t first) {
    LoopValue value{LoopOp::operand, part};
    value.operand = number;
    value.strides = {step};
    value.offset = first;
    return put(std::move(value));
  }
  int constant(DType dtype, double number) {
    LoopValue value{LoopOp::constant, dtype};
    value.constant = Array(dtype, Dims{});
    value.constant.set(0, number);
    return put(std::move(value));
  }
  int op(LoopOp op, DType dtype, int a, int b = -1, int c = -1) {
    return put({op, dtype, a, b, c});
  }
  void result(int value, int64_t step, int64_t first) {
    LoopOutput output{value};
    if (step > 1) output.strides = {step};
    output.offset = first;
    output.result = 0;
    program_.outputs.push_back(std::move(output));
  }
  PreparedKernel prepare() const { return prepare_loop_pieces({program_}); }

 private:
  int put(LoopValue value) {
    program_.values.push_back(std::move(value));
    return static_cast<int>(program_.values.size()) - 1;
  }
  LoopProgram program_;
};

PlacedCopy part_copy(int64_t elements, int64_t size, int64_t from, int64_t to) {
  PlacedCopy placed;
  placed.copy = {size, {elements}, {from}, {to}};
  return placed;
}

PreparedKernel lower_part(const Node& node, int64_t which) {
  PlacedCopy copy = part_copy(node.shape.elements_count(), dtype_size(node.shape.dtype), 2, 1);
  copy.source_offset = which;
  return prepare_copies({copy});
}

PreparedKernel lower_pair(const Node& node) {
  std::vector<PlacedCopy> copies;
  for (const int64_t part : {0, 1}) {
    copies.push_back(
        part_copy(node.shape.elements_count(), dtype_size(part_type(node.shape.dtype)), 1, 2));
    copies.back().operand = copies.back().target_offset = part;
  }
  return prepare_copies(std::move(copies));
}

// Through both parts alike.
PreparedKernel lower_alike(const Node& node, LoopOp op) {
  const DType part = part_type(node.shape.dtype);
  PartLoop loop(2 * node.shape.elements_count());
  const int a = loop.operand(0, part, 1, 0);
  const int b = node.operands().size() > 1 ? loop.operand(1, part, 1, 0) : -1;
  loop.result(loop.op(op, part, a, b), 1, 0);
  return loop.prepare();
}

PreparedKernel lower_product(const Node& node) {
  const DType part = part_type(node.shape.dtype);
  PartLoop loop(node.shape.elements_count());
  const int a = loop.operand(0, part, 2, 0), b = loop.operand(0, part, 2, 1);
  const int c = loop.operand(1, part, 2, 0), d = loop.operand(1, part, 2, 1);
  const auto product = [&](int x, int y) { return loop.op(LoopOp::multiply, part, x, y); };
  const int ac = product(a, c), bd = product(b, d), ad = product(a, d), bc = product(b, c);
  // Last, when everything is read: the result may lie where an operand does.
  loop.result(loop.op(LoopOp::subtract, part, ac, bd), 2, 0);
  loop.result(loop.op(LoopOp::add, part, ad, bc), 2, 1);
  return loop.prepare();
}

// In f64, where no square of f32 is too large; infinite where a part is, NaN beside it or not.
PreparedKernel lower_size(const Node& node) {
  if (node.shape.dtype != DType::f32) return {};
  PartLoop loop(node.shape.elements_count());
  const int infinity = loop.constant(DType::f32, std::numeric_limits<double>::infinity());
  int square = -1, infinite = -1;
  for (const int64_t which : {0, 1}) {
    const int part = loop.op(LoopOp::abs, DType::f32, loop.operand(0, DType::f32, 2, which));
    const int wide = loop.op(LoopOp::convert, DType::f64, part);
    const int own = loop.op(LoopOp::multiply, DType::f64, wide, wide);
    const int is_infinite = loop.op(LoopOp::eq, DType::pred, part, infinity);
    square = which == 0 ? own : loop.op(LoopOp::add, DType::f64, square, own);
    infinite = which == 0 ? is_infinite : loop.op(LoopOp::or_, DType::pred, infinite, is_infinite);
  }
  const int root = loop.op(LoopOp::sqrt, DType::f64, square);
  const int size = loop.op(LoopOp::convert, DType::f32, root);
  loop.result(loop.op(LoopOp::select, DType::f32, infinite, infinity, size), 1, 0);
  return loop.prepare();
}

// From and to complex numbers: the real part alone is kept, or comes with an imaginary one of 0.
PreparedKernel lower_convert(const Node& node) {
  const DType from = node.operand(0)->shape.dtype, to = node.shape.dtype;
  const int64_t n = node.shape.elements_count();
  const auto converted = [](PartLoop& loop, DType x, DType y, int64_t step) {
    const int value = loop.operand(0, x, step, 0);
    return x == y ? value : loop.op(LoopOp::convert, y, value);
  };
  if (is_complex(from) && is_complex(to)) {
    PartLoop loop(2 * n);
    loop.result(converted(loop, part_type(from), part_type(to), 1), 1, 0);
    return loop.prepare();
  }
  PartLoop loop(n);
  if (is_complex(from)) {
    loop.result(converted(loop, part_type(from), to, 2), 1, 0);
    return loop.prepare();
  }
  const int real = converted(loop, from, part_type(to), 1);
  loop.result(real, 2, 0);
  loop.result(loop.constant(part_type(to), 0), 2, 1);
  return loop.prepare();
}

PreparedKernel lower_select(const Node& node) {
  const DType part = part_type(node.shape.dtype);
  PartLoop loop(node.shape.elements_count());
  const int chosen = loop.operand(0, DType::pred, node.operand(0)->rank() == 0 ? 0 : 1, 0);
  int parts[2];
  for (const int64_t which : {0, 1})
    parts[which] = loop.op(LoopOp::select, part, chosen, loop.operand(1, part, 2, which),
                           loop.operand(2, part, 2, which));
  for (const int64_t which : {0, 1}) loop.result(parts[which], 2, which);
  return loop.prepare();
}

PreparedKernel lower_equality(const Node& node) {
  const bool equal = node.attrs.direction == Direction::eq;
  if (!equal && node.attrs.direction != Direction::ne) return {};
  const DType part = part_type(node.operand(0)->shape.dtype);
  PartLoop loop(node.shape.elements_count());
  int parts[2];
  for (const int64_t which : {0, 1})
    parts[which] = loop.op(equal ? LoopOp::eq : LoopOp::ne, DType::pred,
                           loop.operand(0, part, 2, which), loop.operand(1, part, 2, which));
  loop.result(loop.op(equal ? LoopOp::and_ : LoopOp::or_, DType::pred, parts[0], parts[1]), 1, 0);
  return loop.prepare();
}

}  // namespace

PreparedKernel lower_elementwise(const Node& node) {
  const auto is_complex_array = [](const Shape& shape) {
    return !shape.is_tuple && is_complex(shape.dtype);
  };
  const bool any = is_complex_array(node.shape) ||
                   std::any_of(node.operands().begin(), node.operands().end(),
                               [&](const Node* x) { return is_complex_array(x->shape); });
  if (!any || node.shape.elements_count() == 0) {
    PreparedKernel kernel = lower_loop_node(node);
    return kernel.run ? kernel : lower_function(node);
  }
  switch (node.opcode()) {
    case Opcode::real:
      return is_complex(node.operand(0)->shape.dtype) ? lower_part(node, 0) : PreparedKernel{};
    case Opcode::imag:
      return is_complex(node.operand(0)->shape.dtype) ? lower_part(node, 1) : PreparedKernel{};
    case Opcode::complex:
      return lower_pair(node);
    case Opcode::add:
      return lower_alike(node, LoopOp::add);
    case Opcode::subtract:
      return lower_alike(node, LoopOp::subtract);
    case Opcode::negate:
      return lower_alike(node, LoopOp::negate);
    case Opcode::multiply:
      return lower_product(node);
    case Opcode::divide:
      return node.shape.dtype == DType::c64 ? prepare_complex_divide(node.shape.elements_count())
                                            : PreparedKernel{};
    case Opcode::abs:
      return lower_size(node);
    case Opcode::convert:
      return lower_convert(node);
    case Opcode::select:
      return lower_select(node);
    case Opcode::compare:
      return lower_equality(node);
    default:
      return {};
  }
}

}  // namespace gspmd
