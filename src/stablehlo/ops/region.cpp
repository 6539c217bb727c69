// Ops that apply a computation to elements: reductions, windows, sort.
#include <algorithm>

#include "stablehlo/lowering.h"
#include "stablehlo/ops/windows.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

// --- Pretty forms

// "applies stablehlo.add": the region that does it.
void read_applied(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  Region& region = op.regions.emplace_back();
  region.position = cursor.position();
  region.is_applied = true;
  Op& applied = region.ops.add();
  Op& returned = region.ops.add();
  applied.position = returned.position = region.position;
  reader.find_op(applied, cursor.word("an op that reduces"));
  applied.operands = {{"lhs", 0, region.position}, {"rhs", 0, region.position}};
  applied.results = {{"value", 1, region.position}};
  returned.name = "stablehlo.return";
  returned.row = find_row(returned.name);
  returned.operands = {{"value", 0, region.position}};
}

// Scalars of the first input's element type.
void finish_applied(OpReader& reader, Op& op) {
  if (op.operand_types.empty()) reader.cursor().fail(op.position, "{}: it has no operand", op.name);
  const Type* const scalar = reader.types().of(Shape(op.operand_types[0]->shape.dtype, {}));
  Region& region = op.regions[0];
  for (const char* name : {"lhs", "rhs"}) {
    Argument& argument = region.arguments.emplace_back();
    argument.name = name;
    argument.type = scalar;
    argument.position = region.position;
  }
  region.ops[0].operand_types = {scalar, scalar};
  region.ops[0].result_types = {scalar};
  region.ops[1].operand_types = {scalar};
}

// "reducer(%a: t, %c: t) (%b: t, %d: t) {..}": pairs of accumulator and element.
void read_reducer(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  cursor.expect_word("reducer", "behind the type of a reduction");
  List<Argument> accumulators, elements;
  while (cursor.peek() == '(') {
    const size_t at = cursor.position();
    List<Argument> pair;
    reader.read_arguments(pair);
    if (pair.size() != 2) cursor.fail(at, "a reducer names pairs of accumulator and element");
    accumulators.push_back(pair[0]);
    elements.push_back(pair[1]);
  }
  Region& region = op.regions.emplace_back();
  reader.read_region(region);
  region.arguments = std::move(accumulators);
  region.arguments.insert(region.arguments.end(), elements.begin(), elements.end());
}

// "(%x init: %i), (%y init: %j) applies OP across dimensions = [1] {..} : FT", or with a reducer.
void read_reduce(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  List<Use> inits;
  do {
    cursor.expect("(", "before an input of a reduction");
    op.operands.push_back(reader.read_use());
    cursor.expect_word("init", "behind an input of a reduction");
    cursor.expect(":", "behind init");
    inits.push_back(reader.read_use());
    cursor.expect(")", "behind an initial value");
  } while (cursor.accept(","));
  op.operands.insert(op.operands.end(), inits.begin(), inits.end());
  const bool is_applied = cursor.accept_word("applies");
  if (is_applied) read_applied(reader, op);
  cursor.expect_word("across", "before the dimensions of a reduction");
  cursor.expect_word("dimensions", "behind across");
  cursor.expect("=", "behind dimensions");
  op.set("dimensions", reader.read_value());
  reader.read_dictionary(op);
  reader.read_types(op);
  if (is_applied)
    finish_applied(reader, op);
  else
    read_reducer(reader, op);
}

// --- HLO

// What the region declares for its arguments: inputs and initial values of another type are
// converted to it.
std::vector<Node*> promoted(OpLowering& op, size_t inputs) {
  std::vector<Node*> operands = op.operands();
  const List<Argument>& arguments = op.region(0).arguments;
  if (arguments.size() != 2 * inputs)
    op.fail("its region has {} arguments, it needs {}", arguments.size(), 2 * inputs);
  for (size_t i = 0; i < operands.size(); ++i) {
    const DType dtype = arguments[i % inputs].type->shape.dtype;
    const Shape& shape = operands[i]->shape;
    const bool differs = !shape.is_tuple && shape.dtype != dtype &&
                         is_floating(shape.dtype) == is_floating(dtype) &&
                         is_integer(shape.dtype) == is_integer(dtype) &&
                         dtype_size(dtype) >= dtype_size(shape.dtype);
    if (differs) operands[i] = op.implicit(hlo::convert(operands[i], dtype));
  }
  return operands;
}

Computation* reducer(OpLowering& op) {
  const Region& region = op.region(0);
  if (!region.is_applied) return op.body(0, "region");
  const DType dtype = region.arguments[0].type->shape.dtype;
  Computation*& shared = op.lowering().applied(region.ops[0].name, dtype);
  if (shared == nullptr) shared = op.body(0, "region");
  return shared;
}

Node* lower_reduce(OpLowering& op) {
  if (op.count() < 2 || op.count() % 2 != 0)
    op.fail("{} operands; inputs and as many initial values are needed", op.count());
  Attributes attrs;
  attrs.dimensions = op.integers("dimensions");
  std::vector<Node*> operands = promoted(op, op.count() / 2);
  Computation* const body = reducer(op);
  return op.emit(Opcode::reduce, std::move(operands), std::move(attrs), {}, {body});
}

Node* lower_reduce_window(OpLowering& op) {
  if (op.count() < 2 || op.count() % 2 != 0)
    op.fail("{} operands; inputs and as many initial values are needed", op.count());
  const Dims sizes = op.integers("window_dimensions");
  Attributes attrs;
  attrs.window = window_of(op, sizes, {"window_strides", "base_dilations", "window_dilations", ""},
                           padding_of(op, sizes.size()));
  std::vector<Node*> operands = promoted(op, op.count() / 2);
  Computation* const body = op.body(0, "region");
  return op.emit(Opcode::reduce_window, std::move(operands), std::move(attrs), {}, {body});
}

Node* lower_select_and_scatter(OpLowering& op) {
  op.need_operands(3, 3);
  const auto rank = static_cast<size_t>(op.operand(0)->rank());
  const Dims sizes = op.maybe_integers("window_dimensions").value_or(Dims(rank, 1));
  Attributes attrs;
  attrs.window = window_of(op, sizes, {"window_strides", "", "", ""}, padding_of(op, sizes.size()));
  Computation* const select = op.body(0, "select");
  Computation* const scatter = op.body(1, "scatter");
  return op.emit(Opcode::select_and_scatter, op.operands(), std::move(attrs), {},
                 {select, scatter});
}

Node* lower_sort(OpLowering& op) {
  Attributes attrs;
  int64_t dim = op.integer("dimension", -1);
  if (op.count() > 0 && dim < 0) dim += op.operand(0)->rank();
  attrs.dimensions = {dim};
  attrs.scalar.edit().is_stable = op.flag("is_stable", false);
  Computation* const body = op.body(0, "compare");
  return op.emit(Opcode::sort, op.operands(), std::move(attrs), {}, {body});
}

// clang-format off
const OpRow kRegionRows[] = {
    {"stablehlo.reduce", lower_reduce, Opcode::reduce, read_reduce},
    {"stablehlo.reduce_window", lower_reduce_window, Opcode::reduce_window},
    {"stablehlo.select_and_scatter", lower_select_and_scatter, Opcode::select_and_scatter},
    {"stablehlo.sort", lower_sort, Opcode::sort},
};
// clang-format on

}  // namespace

std::span<const OpRow> region_rows() { return kRegionRows; }

}  // namespace gspmd::stablehlo
