#include "stablehlo/text/op_reader.h"

#include "stablehlo/row.h"

namespace gspmd::stablehlo {
namespace {

// Regions inside one another; keeps the recursion short.
constexpr int64_t kMostResults = 65536;

// Words that stand for ops of other dialects where these are the default.
std::string_view full_name(std::string_view name) {
  if (name == "return") return "func.return";
  if (name == "call") return "func.call";
  if (name == "constant") return "stablehlo.constant";
  return name;
}

// What to do about ops of dialects that are not read.
struct Dialect {
  std::string_view prefix, way_out;
};
constexpr Dialect kDialects[] = {
    {"cf.", "branches between blocks are not supported; use stablehlo.if, case or while"},
    {"scf.", "loops of scf are not supported; use stablehlo.while, if or case"},
    {"vhlo.", "this is the form of serialized programs; write the program as StableHLO text"},
    {"tosa.", "TOSA is not supported; lower the program to StableHLO"},
    {"linalg.", "linalg is not supported; lower the program to StableHLO"},
    {"torch.", "torch is not supported; lower the program to StableHLO"},
};

// The common form: "%a, LT, key = value, %b {..} : T".
void read_common(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  reader.read_dictionary(op);
  if (cursor.peek() != ':' && cursor.peek() != '}') do {
      const size_t at = cursor.position();
      if (cursor.peek() == '%') {
        op.operands.push_back(reader.read_use());
        continue;
      }
      const std::string_view key = cursor.word("an operand or an attribute");
      if (!cursor.accept("="))
        cursor.fail(at, "{}: \"{}\" is no operand and has no value", op.name, key);
      std::string_view attribute = key;
      bool known = false;
      for (const KeyName& name : op.row->keys)
        if (name.key == key) {
          attribute = name.attribute;
          known = true;
        }
      if (!known) cursor.fail(at, "{}: it has no \"{}\"", op.name, key);
      op.set(attribute, reader.read_value());
    } while (cursor.accept(","));
  reader.read_dictionary(op);
  reader.read_types(op);
}

}  // namespace

const NamedAttribute* Op::peek(std::string_view attribute) const {
  for (const NamedAttribute& named : attributes)
    if (named.name == attribute) return &named;
  return nullptr;
}

const Attribute* Op::find(std::string_view attribute) const {
  const NamedAttribute* const named = peek(attribute);
  if (named == nullptr) return nullptr;
  named->used = true;
  return &named->value;
}

void Op::set(std::string_view attribute, Attribute value) {
  NamedAttribute named;
  named.name = attribute;
  named.position = value.position;
  named.value = std::move(value);
  named.is_property = true;
  attributes.push_back(std::move(named));
}

Ops::~Ops() {
  ArenaAllocator<Op> memory(ops_.get_allocator());
  for (Op* const op : ops_) {
    std::destroy_at(op);
    memory.deallocate(op, 1);
  }
}

Op& Ops::add() {
  Op* const op = ArenaAllocator<Op>(ops_.get_allocator()).allocate(1);
  ops_.push_back(std::construct_at(op));
  return *op;
}

void OpReader::read_ops(Ops& ops) {
  while (!cursor_.accept("}")) {
    if (cursor_.at_end()) cursor_.fail(cursor_.position(), "a \"}}\" is missing at the end");
    if (cursor_.peek() == '^')
      cursor_.fail(cursor_.position(),
                   "a second block: branches between blocks are not supported, use stablehlo.if or "
                   "stablehlo.while");
    read_op(ops.add());
  }
}

void OpReader::read_op(Op& op) {
  op.position = cursor_.position();
  if (cursor_.peek() == '%') read_results(op);
  op.position = cursor_.position();
  if (cursor_.peek() == '"')
    read_generic(op);
  else
    read_custom(op);
  op.location = read_location();
  int64_t names = 0;
  for (const ResultName& result : op.results) names += result.count;
  if (!op.results.empty() && names != std::ssize(op.result_types))
    cursor_.fail(op.results[0].position, "{}: {} names for {} results", op.name, names,
                 op.result_types.size());
}

void OpReader::read_results(Op& op) {
  do {
    ResultName result;
    result.position = cursor_.position();
    cursor_.expect("%", "before the name of a result");
    result.name = cursor_.suffix_id("the name of a result");
    if (cursor_.accept(":")) {
      result.count = cursor_.integer("a number of results");
      if (result.count < 0 || result.count > kMostResults)
        cursor_.fail(result.position, "{} results; up to {} are supported", result.count,
                     kMostResults);
    }
    op.results.push_back(result);
  } while (cursor_.accept(","));
  cursor_.expect("=", "behind the names of results");
}

// Ops of the dialect before StableHLO have the names and forms that they have there.
void OpReader::find_op(Op& op, std::string_view name) {
  op.name = full_name(name);
  op.row = find_row(op.name);
  constexpr std::string_view kFormer = "mhlo.";
  for (const char* dialect : {"stablehlo", "chlo"})
    if (op.row == nullptr && op.name.starts_with(kFormer))
      op.row = find_row(fmt::format("{}.{}", dialect, op.name.substr(kFormer.size())));
  if (op.row != nullptr) {
    op.name = op.row->name;
    return;
  }
  for (const Dialect& dialect : kDialects)
    if (op.name.starts_with(dialect.prefix))
      cursor_.fail(op.position, "\"{}\": {}", op.name, dialect.way_out);
  cursor_.fail(op.position, "\"{}\" is no op that is known; see docs/spec/stablehlo.md", op.name);
}

void OpReader::read_generic(Op& op) {
  find_op(op, cursor_.raw_quoted("the name of an op"));
  cursor_.expect("(", "behind the name of an op");
  read_uses(op.operands);
  cursor_.expect(")", "behind the operands");
  if (cursor_.peek() == '[') {
    cursor_.expect("[", "");
    cursor_.fail(op.position, "{}: branches to other blocks are not supported", op.name);
  }
  if (cursor_.accept("<")) {
    attributes().read_dictionary(cursor_, op.attributes, true);
    cursor_.expect(">", "behind the properties");
  }
  if (cursor_.accept("(")) {
    do {
      read_region(op.regions.emplace_back());
    } while (cursor_.accept(","));
    cursor_.expect(")", "behind the regions");
  }
  read_dictionary(op);
  cursor_.expect(":", "before the type of an op");
  read_function_type(op);
}

void OpReader::read_custom(Op& op) {
  find_op(op, cursor_.word("an op"));
  if (op.row->read != nullptr)
    op.row->read(*this, op);
  else
    read_common(*this, op);
}

void OpReader::read_region(Region& region) {
  region.position = cursor_.position();
  if (++depth_ > kMaxDepth)
    cursor_.fail(region.position, "regions inside one another more than {} deep are not supported",
                 kMaxDepth);
  cursor_.expect("{", "before a region");
  if (cursor_.peek() == '^') {
    cursor_.expect("^", "before the name of a block");
    cursor_.suffix_id("the name of a block");
    if (cursor_.peek() == '(') read_arguments(region.arguments);
    cursor_.expect(":", "behind the name of a block");
  }
  read_ops(region.ops);
  --depth_;
}

void OpReader::read_arguments(List<Argument>& arguments, bool with_attributes) {
  cursor_.expect("(", "before arguments");
  bool first = true;
  while (!cursor_.accept(")")) {
    if (!first) cursor_.expect(",", "between arguments");
    first = false;
    Argument& argument = arguments.emplace_back();
    argument.position = cursor_.position();
    if (cursor_.accept("%")) {
      argument.name = cursor_.suffix_id("the name of an argument");
      cursor_.expect(":", "behind the name of an argument");
    } else if (!with_attributes) {
      cursor_.fail(argument.position, "expected an argument, found {}", cursor_.found());
    }
    argument.type = types().read(cursor_);
    if (with_attributes && cursor_.peek() == '{')
      attributes().read_dictionary(cursor_, argument.attributes);
    argument.location = read_location();
  }
}

Use OpReader::read_use() {
  Use use;
  use.position = cursor_.position();
  cursor_.expect("%", "before the name of a value");
  use.name = cursor_.suffix_id("the name of a value");
  if (cursor_.adjacent() == '#') {
    cursor_.seek(cursor_.position() + 1);
    use.index = cursor_.integer("the number of a result");
  }
  return use;
}

void OpReader::read_uses(List<Use>& uses) {
  if (cursor_.peek() != '%') return;
  do {
    uses.push_back(read_use());
  } while (cursor_.accept(","));
}

void OpReader::read_dictionary(Op& op) {
  if (cursor_.peek() == '{') attributes().read_dictionary(cursor_, op.attributes);
}

void OpReader::read_type_list(List<const Type*>& list) {
  do {
    list.push_back(types().read(cursor_));
  } while (cursor_.accept(","));
}

void OpReader::read_function_type(Op& op) {
  cursor_.expect("(", "before the types of the operands");
  if (!cursor_.accept(")")) {
    read_type_list(op.operand_types);
    cursor_.expect(")", "behind the types of the operands");
  }
  cursor_.expect("->", "before the types of the results");
  if (!cursor_.accept("(")) {
    op.result_types.push_back(types().read(cursor_));
  } else if (!cursor_.accept(")")) {
    read_type_list(op.result_types);
    cursor_.expect(")", "behind the types of the results");
  }
}

void OpReader::read_types(Op& op) {
  cursor_.expect(":", "before the types of an op");
  if (cursor_.peek() == '(') return read_function_type(op);
  const size_t at = cursor_.position();
  List<const Type*> list;
  read_type_list(list);
  if (cursor_.accept("->")) {
    op.operand_types = std::move(list);
    if (cursor_.accept("(")) {
      read_type_list(op.result_types);
      cursor_.expect(")", "behind the types of the results");
    } else {
      op.result_types.push_back(types().read(cursor_));
    }
    return;
  }
  if (list.size() != 1)
    cursor_.fail(at, "{}: {} types; give one, or those of operands and results, (A, B) -> C",
                 op.name, list.size());
  op.operand_types.assign(op.operands.size(), list[0]);
  op.result_types = std::move(list);
}

std::string_view OpReader::read_location() {
  if (!cursor_.accept_word("loc")) return {};
  cursor_.expect("(", "behind loc");
  const std::string_view text = cursor_.balanced("a location");
  cursor_.expect(")", "behind a location");
  return text;
}

Attribute OpReader::read_value() {
  if (cursor_.peek() == '<') return attributes().read_body(cursor_, "");
  if (cursor_.peek() == '-' || is_digit(cursor_.peek())) {
    // The colon behind it is that of the op's type.
    Attribute number;
    number.kind = AttributeKind::integer;
    number.position = cursor_.position();
    number.integer = cursor_.integer("a number");
    number.end = cursor_.position();
    return number;
  }
  if (cursor_.sees_word("true") || cursor_.sees_word("false")) {
    Attribute flag;
    flag.kind = AttributeKind::integer;
    flag.position = cursor_.position();
    flag.integer = cursor_.accept_word("true") ? 1 : 0;
    if (flag.integer == 0) cursor_.accept_word("false");
    flag.end = cursor_.position();
    return flag;
  }
  if (cursor_.peek() == '"') {
    Attribute text;
    text.kind = AttributeKind::string;
    text.position = cursor_.position();
    text.text = cursor_.quoted("a text");
    text.end = cursor_.position();
    return text;
  }
  Attribute attribute = attributes().read(cursor_);
  if (attribute.kind != AttributeKind::list || !cursor_.accept_word("x")) return attribute;
  Attribute pair;
  pair.kind = AttributeKind::list;
  pair.position = attribute.position;
  pair.list.push_back(std::move(attribute));
  pair.list.push_back(attributes().read(cursor_));
  pair.end = pair.list.back().end;
  return pair;
}

}  // namespace gspmd::stablehlo
