// What exporters leave of MLIR's own dialects around StableHLO: constants, sizes of tensors and
// arithmetic on them, which are known while the text is read.
#include <algorithm>

#include "stablehlo/lowering.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

// --- Pretty forms

// "{..} 1 : index", "dense<..> : tensor<..>".
void read_arith_constant(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  if (cursor.peek() == '(') {  // "() <{value = ..}> : () -> T"
    cursor.expect("(", "behind the name of an op");
    cursor.expect(")", "behind the operands");
    if (cursor.accept("<")) {
      reader.attributes().read_dictionary(cursor, op.attributes, true);
      cursor.expect(">", "behind the properties");
    }
    reader.read_dictionary(op);
    return reader.read_types(op);
  }
  reader.read_dictionary(op);
  Attribute value = reader.attributes().read(cursor);
  const bool is_flag = value.kind == AttributeKind::integer && value.type == nullptr;
  if (value.type == nullptr && !is_flag)
    cursor.fail(value.position, "{}: the value has no type", op.name);
  const DType dtype = value.position < cursor.position() && (cursor.text()[value.position] == 't' ||
                                                             cursor.text()[value.position] == 'f')
                          ? DType::pred
                          : DType::s64;
  op.result_types = {is_flag ? reader.types().of(Shape(dtype, {})) : value.type};
  op.set("value", std::move(value));
}

// "%a : index to i64".
void read_cast(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  op.operands.push_back(reader.read_use());
  reader.read_dictionary(op);
  cursor.expect(":", "before the types of a cast");
  op.operand_types = {reader.types().read(cursor)};
  cursor.expect_word("to", "between the types of a cast");
  op.result_types = {reader.types().read(cursor)};
}

// "%a, %i : T", "%a[%i] : T", "%a : T -> R": the type is the operand's, indices are numbers.
void read_of_tensor(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  reader.read_uses(op.operands);
  if (cursor.accept("[")) {
    reader.read_uses(op.operands);
    cursor.expect("]", "behind indices");
  }
  reader.read_dictionary(op);
  cursor.expect(":", "before the type of a tensor");
  const Type* const type = reader.types().read(cursor);
  const Type* const index = reader.types().of(Shape(DType::s64, {}));
  op.operand_types.assign(op.operands.size(), index);
  if (!op.operands.empty()) op.operand_types[0] = type;
  if (cursor.accept("->"))
    op.result_types = {reader.types().read(cursor)};
  else
    op.result_types = {op.name == "tensor.dim" ? index
                                               : reader.types().of(Shape(type->shape.dtype, {}))};
}

// "%a, %b : tensor<2xi64>": the type of the result.
void read_elements(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  reader.read_uses(op.operands);
  reader.read_dictionary(op);
  cursor.expect(":", "before the type of a tensor");
  const Type* const type = reader.types().read(cursor);
  op.operand_types.assign(op.operands.size(), reader.types().of(Shape(type->shape.dtype, {})));
  op.result_types = {type};
}

// "%a, probe_id = \"x\" : T".
void read_probe(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  op.operands.push_back(reader.read_use());
  cursor.expect(",", "behind the value of a probe");
  cursor.expect_word("probe_id", "behind the value of a probe");
  cursor.expect("=", "behind probe_id");
  op.set("probe_id", reader.read_value());
  reader.read_dictionary(op);
  reader.read_types(op);
}

// --- HLO

Node* lower_arith_constant(OpLowering& op) {
  const Attribute& value = op.attribute("value");
  const Shape shape(op.result().dtype, op.result().dims);
  if (value.kind == AttributeKind::dense) {
    Node* const constant = hlo::constant(op.computation(), value.array);
    return value.is_splat ? hlo::broadcast(op.implicit(constant), shape.dims, {}) : constant;
  }
  if (value.kind != AttributeKind::integer && value.kind != AttributeKind::real)
    op.fail("the attribute value is no number");
  Array array(shape);
  if (is_integer(shape.dtype) && value.kind == AttributeKind::integer) {
    visit_dtype(shape.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_integral_v<T>) array.data<T>()[0] = static_cast<T>(value.integer);
    });
  } else {
    array.set(
        0, value.kind == AttributeKind::integer ? static_cast<double>(value.integer) : value.real);
  }
  return hlo::constant(op.computation(), std::move(array));
}

Node* lower_cast(OpLowering& op) {
  op.need_operands(1, 1);
  return hlo::convert(op.operand(0), op.result().dtype);
}

Node* lower_arith_binary(OpLowering& op) {
  op.need_operands(2, 2);
  op.find("overflowFlags");
  return op.emit(op.opcode(), op.operands());
}

Node* lower_dim(OpLowering& op) {
  op.need_operands(2, 2);
  const Dims dim = op.known_integers(1);
  const Shape& shape = op.operand(0)->shape;
  if (dim.size() != 1 || dim[0] < 0 || dim[0] >= shape.rank())
    op.fail("there is no such dim of {}", to_string(shape));
  return hlo::constant(op.computation(), Array::scalar(shape.dims[static_cast<size_t>(dim[0])]));
}

Node* lower_shape_of(OpLowering& op) {
  op.need_operands(1, 1);
  const Dims& dims = op.operand(0)->dims();
  Array array(Shape(DType::s64, {std::ssize(dims)}));
  std::copy(dims.begin(), dims.end(), array.data<int64_t>().begin());
  return hlo::constant(op.computation(), std::move(array));
}

Node* lower_from_elements(OpLowering& op) {
  op.need_operands(1, 65536);
  std::vector<Node*> elements;
  for (Node* element : op.operands()) elements.push_back(op.implicit(hlo::reshape(element, {1})));
  Node* const list = elements.size() == 1 ? elements[0] : hlo::concatenate(elements, 0);
  return op.is_static() && op.result().rank() != 1 ? hlo::reshape(list, op.result().dims) : list;
}

Node* lower_extract(OpLowering& op) {
  Node* const x = op.operand(0);
  if (static_cast<int64_t>(op.count()) != x->rank() + 1)
    op.fail("{} indices for {}", op.count() - 1, to_string(x->shape));
  if (x->rank() == 0) {
    op.set_results({x});
    return nullptr;
  }
  std::vector<Node*> starts(op.operands().begin() + 1, op.operands().end());
  const Dims ones(static_cast<size_t>(x->rank()), 1);
  return hlo::reshape(op.implicit(hlo::dynamic_slice(x, std::move(starts), ones)), {});
}

Node* lower_same(OpLowering& op) {
  op.need_operands(1, 1);
  op.find("probe_id");
  op.set_results({op.operand(0)});
  return nullptr;
}

// clang-format off
const OpRow kBuiltinRows[] = {
    {"arith.constant", lower_arith_constant, Opcode::constant, read_arith_constant},
    {"arith.index_cast", lower_cast, Opcode::convert, read_cast},
    {"arith.index_castui", lower_cast, Opcode::convert, read_cast},
    {"arith.extsi", lower_cast, Opcode::convert, read_cast},
    {"arith.trunci", lower_cast, Opcode::convert, read_cast},
    {"arith.addi", lower_arith_binary, Opcode::add},
    {"arith.subi", lower_arith_binary, Opcode::subtract},
    {"arith.muli", lower_arith_binary, Opcode::multiply},
    {"arith.divsi", lower_arith_binary, Opcode::divide},
    {"arith.remsi", lower_arith_binary, Opcode::remainder},
    {"arith.maxsi", lower_arith_binary, Opcode::maximum},
    {"arith.minsi", lower_arith_binary, Opcode::minimum},
    {"tensor.dim", lower_dim, Opcode::constant, read_of_tensor},
    {"tensor.extract", lower_extract, Opcode::reshape, read_of_tensor},
    {"tensor.from_elements", lower_from_elements, Opcode::concatenate, read_elements},
    {"tensor.cast", lower_same, Opcode::copy, read_cast},
    {"shape.shape_of", lower_shape_of, Opcode::constant, read_of_tensor},
    {"interpreter.probe", lower_same, Opcode::copy, read_probe},
};
// clang-format on

}  // namespace

std::span<const OpRow> builtin_rows() { return kBuiltinRows; }

}  // namespace gspmd::stablehlo
