#include "gspmd/ir/place.h"
#include "stablehlo/lowering.h"
#include "stablehlo/text/dense.h"

namespace gspmd::stablehlo {
namespace {

constexpr int64_t kMostKnown = 65536;  // integers of an operand that has to be known

Dims integers_of_array(const Array& array, bool is_splat, int64_t count) {
  Dims result;
  const int64_t n = is_splat ? 1 : array.size();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = visit_dtype(array.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_integral_v<T>)
        return static_cast<int64_t>(array.data<T>()[static_cast<size_t>(i)]);
      else
        return static_cast<int64_t>(array.at(i));
    });
    result.push_back(value);
  }
  if (is_splat) result.assign(static_cast<size_t>(count), result[0]);
  return result;
}

}  // namespace

OpLowering::OpLowering(ModuleLowering& lowering, const Op& op) : lowering_(lowering), op_(op) {
  Frame& frame = lowering.frame();
  operands_.reserve(op.operands.size());
  for (const Use& use : op.operands) {
    Node* const node = frame.value(use);
    if (node == nullptr)
      lowering.cursor().fail(use.position, "%{}{} is not defined here", use.name,
                             use.index ? fmt::format("#{}", use.index) : std::string());
    operands_.push_back(node);
  }
  if (op.operand_types.size() != operands_.size())
    fail("{} types for {} operands", op.operand_types.size(), operands_.size());
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Type& type = *op.operand_types[i];
    if (!type.refusal.empty()) fail("operand {} is {}: {}", i, type.text, type.refusal);
    if (!fits(operands_[i]->shape, type))
      fail("operand {} is declared as {}, but %{} is {}", i, type_text(type.shape),
           op.operands[i].name, type_text(operands_[i]->shape));
  }
  for (const Type* type : op.result_types)
    if (!type->refusal.empty()) fail("the result is {}: {}", type->text, type->refusal);
}

void OpLowering::fail_with(const std::string& message) const {
  lowering_.cursor().fail_at(op_.position, fmt::format("{}: {}", op_.name, message));
}

Node* OpLowering::operand(size_t i) const {
  if (i >= operands_.size()) fail("operand {} is missing, {} are given", i, operands_.size());
  return operands_[i];
}

void OpLowering::need_operands(size_t least, size_t most) const {
  if (count() < least || count() > most)
    fail("{} operands given, {}{} needed", count(), least,
         most == least ? std::string() : fmt::format(" to {}", most));
}

const Shape& OpLowering::result(size_t i) const {
  if (i >= op_.result_types.size()) fail("it declares {} results", op_.result_types.size());
  return op_.result_types[i]->shape;
}

Shape OpLowering::result_like(const Shape& like, size_t i) const {
  Shape shape = result(i);
  for (size_t d = 0; d < shape.dims.size() && d < like.dims.size(); ++d)
    if (shape.dims[d] == kUnknown) shape.dims[d] = like.dims[d];
  return shape;
}

const Attribute& OpLowering::attribute(std::string_view name) const {
  const Attribute* const found = op_.find(name);
  if (found == nullptr) fail("the attribute {} is missing", name);
  return *found;
}

int64_t OpLowering::integer(std::string_view name) const {
  const Attribute& value = attribute(name);
  if (value.kind != AttributeKind::integer) fail("the attribute {} is no integer", name);
  return value.integer;
}

int64_t OpLowering::integer(std::string_view name, int64_t standard) const {
  return op_.find(name) ? integer(name) : standard;
}

double OpLowering::real(std::string_view name) const {
  const Attribute& value = attribute(name);
  if (value.kind == AttributeKind::integer) return static_cast<double>(value.integer);
  if (value.kind != AttributeKind::real) fail("the attribute {} is no number", name);
  return value.real;
}

bool OpLowering::flag(std::string_view name, bool standard) const {
  const Attribute* const value = op_.find(name);
  if (value == nullptr) return standard;
  if (value->kind == AttributeKind::unit) return true;
  if (value->kind != AttributeKind::integer) fail("the attribute {} is true or false", name);
  return value->integer != 0;
}

std::string OpLowering::word(std::string_view name, std::string_view standard) const {
  const Attribute* const value = op_.find(name);
  if (value == nullptr && !standard.empty()) return std::string(standard);
  const Attribute& found = attribute(name);
  if (found.kind != AttributeKind::word && found.kind != AttributeKind::string)
    fail("the attribute {} is no word", name);
  return found.text;
}

std::string OpLowering::string(std::string_view name, std::string_view standard) const {
  const Attribute* const value = op_.find(name);
  if (value == nullptr) return std::string(standard);
  if (value->kind != AttributeKind::string && value->kind != AttributeKind::symbol)
    fail("the attribute {} is no string", name);
  return value->text;
}

Dims OpLowering::integers_of(const Attribute& value, std::string_view name) const {
  switch (value.kind) {
    case AttributeKind::integers:
      return value.integers;
    case AttributeKind::integer:
      return {value.integer};
    case AttributeKind::dense: {
      const int64_t count = value.type->shape.elements_count();
      if (is_floating(value.array.dtype()) || is_complex(value.array.dtype()) || count > kMostKnown)
        break;
      return integers_of_array(value.array, value.is_splat, count);
    }
    case AttributeKind::list: {
      Dims result;
      for (const Attribute& element : value.list) {
        if (element.kind != AttributeKind::integer)
          fail("the attribute {} is no list of integers", name);
        result.push_back(element.integer);
      }
      return result;
    }
    default:
      break;
  }
  fail("the attribute {} is no list of integers", name);
}

Dims OpLowering::integers(std::string_view name) const {
  return integers_of(attribute(name), name);
}

std::optional<Dims> OpLowering::maybe_integers(std::string_view name) const {
  const Attribute* const value = op_.find(name);
  if (value == nullptr) return std::nullopt;
  return integers_of(*value, name);
}

std::vector<std::pair<int64_t, int64_t>> OpLowering::pairs(std::string_view name) const {
  const Attribute& value = attribute(name);
  std::vector<std::pair<int64_t, int64_t>> result;
  if (value.kind == AttributeKind::list) {
    for (const Attribute& element : value.list) {
      const Dims two = integers_of(element, name);
      if (two.size() != 2) fail("the attribute {} is no list of pairs", name);
      result.emplace_back(two[0], two[1]);
    }
    return result;
  }
  const Dims flat = integers_of(value, name);
  if (flat.size() % 2 != 0) fail("the attribute {} is no list of pairs", name);
  for (size_t i = 0; i < flat.size(); i += 2) result.emplace_back(flat[i], flat[i + 1]);
  return result;
}

Dictionary OpLowering::fields(const Attribute& attribute) const {
  Dictionary result;
  if (attribute.kind != AttributeKind::dialect) fail("an attribute is no #stablehlo.x<...>");
  Cursor cursor = lowering_.cursor().sub(attribute.body, attribute.body_end);
  cursor.accept_word("raw");
  while (!cursor.at_end()) {
    if (!result.empty()) cursor.expect(",", "between the fields of an attribute");
    NamedAttribute field;
    field.position = cursor.position();
    field.name = cursor.word("a field of an attribute");
    cursor.expect("=", "behind the name of a field");
    field.value = lowering_.syntax().attributes_table.read(cursor);
    result.push_back(std::move(field));
  }
  return result;
}

Node* OpLowering::emit(Opcode opcode, std::vector<Node*> operands, Attributes attrs, Shape declared,
                       std::vector<Computation*> called) {
  return gspmd::emit(computation(), opcode, std::move(operands), std::move(attrs),
                     std::move(declared), std::move(called));
}

Node* OpLowering::implicit(Node* node) {
  node->frontend_attributes[kImplicit] = "true";
  return node;
}

const Region& OpLowering::region(size_t i) const {
  if (i >= op_.regions.size()) fail("region {} is missing", i);
  return op_.regions[i];
}

Computation* OpLowering::body(size_t index, std::string_view name) {
  const Region& body = region(index);
  return lowering_.lower_region(
      body, std::string(name), {.bind = [&](Frame& frame) {
        int64_t number = 0;
        for (const Argument& argument : body.arguments) {
          if (!argument.type->known)
            fail("an argument of its region is {}; its size has to be known", argument.type->text);
          Node* const parameter = hlo::parameter(frame.computation(), number++,
                                                 argument.type->shape, hlo_name(argument.name));
          if (!frame.bind(argument.name, parameter)) fail("%{} is defined twice", argument.name);
        }
      }});
}

Dims OpLowering::known_integers(size_t i) {
  const Shape& shape = operand(i)->shape;
  if (shape.is_tuple || (!is_integer(shape.dtype) && shape.dtype != DType::pred) ||
      shape.elements_count() > kMostKnown)
    fail("operand {} is {}; it has to be of a few integers", i, to_string(shape));
  const std::optional<Array> value = known_value(i);
  if (!value) fail("operand {} of {} is not constant: export with static shapes", i, op_.name);
  return integers_of_array(*value, false, value->size());
}

}  // namespace gspmd::stablehlo
