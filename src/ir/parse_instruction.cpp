#include <algorithm>
#include <charconv>

#include "ir/attribute_table.h"
#include "ir/called_table.h"
#include "ir/module_parser.h"
#include "ir/parse_attributes.h"
#include "ir/parse_literal.h"
#include "ir/parse_shape.h"
#include "ir/sharding_text.h"

namespace gspmd {
namespace {

constexpr int64_t kMaxParameters = 65536;
// Instructions written as operands of one another; keeps the recursion short.
constexpr int kMaxNested = 64;

// "add-start" wraps the opcode "add"; its -update and -done do not say more than async-update and
// -done.
struct AsyncSuffix {
  std::string_view text;
  std::optional<Opcode> opcode;  // nullopt: the wrapped one, in a computation of its own
};
constexpr AsyncSuffix kAsyncSuffixes[] = {
    {"-start", std::nullopt}, {"-update", Opcode::async_update}, {"-done", Opcode::async_done}};

}  // namespace

void ModuleParser::parse_instruction() {
  if (scope_.implicit && scope_.instructions > 0)
    lexer_.fail(*scope_.implicit, "an operand that is not defined in \"{}\"",
                scope_.computation->name());
  Instruction instruction;
  const size_t start = lexer_.position();
  instruction.is_root = lexer_.accept_word("ROOT");
  instruction.position = lexer_.position();
  if (scope_.bare && lexer_.token_after_name() != '=' && sees_shape(lexer_)) {
    instruction.name = made_names_.emplace_back("result");
  } else {
    instruction.name = lexer_.name("an instruction or '}'");
    lexer_.expect("=", "after an instruction's name");
  }
  const std::string_view name = instruction.name;
  if (scope_.nodes.contains(name) || scope_.deferred_names.contains(name))
    lexer_.fail(instruction.position, "\"{}\" is defined twice in \"{}\"", name,
                scope_.computation->name());
  scope_.reading = name;
  if (instruction.is_root && !scope_.root.empty())
    lexer_.fail(start, "a second ROOT; \"{}\" is one already", scope_.root);
  if (instruction.is_root) scope_.root = name;
  instruction.key = name;
  parse_operation(instruction);
  SeenNames seen;
  while (lexer_.accept(",")) parse_attribute(instruction, seen);
  check_required(instruction, seen);
  ++scope_.instructions;
  finish(std::move(instruction));
}

// "f32[4] add(x, y)", without attributes.
void ModuleParser::parse_operation(Instruction& instruction) {
  if (sees_shape(lexer_)) instruction.shape = parse_shape(lexer_);
  parse_opcode(instruction);
  lexer_.expect("(", "after the opcode");
  parse_arguments(instruction);
  if (!lexer_.accept(")"))
    lexer_.expect(")", fmt::format("after the operands of {}", instruction.word));
}

void ModuleParser::parse_opcode(Instruction& instruction) {
  instruction.word_position = lexer_.position();
  const std::string_view word = lexer_.word("an opcode");
  instruction.word = word;
  if (const std::optional<Opcode> opcode = opcode_from_name(word)) {
    instruction.opcode = *opcode;
    return;
  }
  for (const AsyncSuffix& suffix : kAsyncSuffixes) {
    if (!word.ends_with(suffix.text)) continue;
    const auto wrapped = opcode_from_name(word.substr(0, word.size() - suffix.text.size()));
    if (!wrapped) break;
    instruction.opcode = suffix.opcode.value_or(*wrapped);
    instruction.is_async_start = !suffix.opcode;
    return;
  }
  lexer_.fail(instruction.word_position,
              "unknown opcode \"{}\"; `gspmd ops` lists those that are known", word);
}

void ModuleParser::parse_arguments(Instruction& instruction) {
  if (instruction.opcode == Opcode::parameter) {
    const size_t at = lexer_.position();
    const int64_t number = lexer_.integer("a parameter number");
    const std::vector<Node*>& known = scope_.computation->parameters();
    if (number < 0 || number >= kMaxParameters)
      lexer_.fail(at, "parameter: number {} is outside 0 to {}", number, kMaxParameters - 1);
    if (static_cast<size_t>(number) < known.size() && known[static_cast<size_t>(number)])
      lexer_.fail(at, "parameter: number {} is \"{}\" already", number,
                  known[static_cast<size_t>(number)]->name());
    instruction.attrs.index = number;
    return;
  }
  if (instruction.opcode == Opcode::constant) {
    if (!instruction.shape) {
      if (!sees_array_shape(lexer_))
        lexer_.fail(instruction.word_position, "constant: the type is missing");
      const size_t at = lexer_.position();
      instruction.shape = parse_shape(lexer_, LayoutPlace::adjacent);
      lexer_.seek(at);
    }
    if (instruction.shape->is_tuple)
      instruction.leaves = parse_tuple_literal(lexer_, *instruction.shape);
    else
      instruction.attrs.literal = parse_literal(lexer_, *instruction.shape);
    return;
  }
  while (lexer_.peek() != ')') {
    const bool first = instruction.operands.empty();
    if (!first) lexer_.expect(",", "between operands");
    instruction.operands.push_back(parse_operand());
  }
}

ModuleParser::Operand ModuleParser::parse_operand() {
  Operand operand;
  operand.position = lexer_.position();
  if (sees_shape(lexer_)) operand.declared = parse_shape(lexer_);
  if (!lexer_.peek_name().empty() && lexer_.peek() != '%' && lexer_.token_after_name() == '(') {
    lexer_.seek(operand.position);
    parse_nested_instruction(operand);
    return operand;
  }
  // In the first instruction outside of any computation nothing but parameters can be meant.
  const bool implicit = scope_.bare && scope_.instructions == 0 && operand.declared;
  const char next = lexer_.peek();
  if (implicit && (next == ',' || next == ')')) {
    operand.node = implicit_parameter(operand);
    return operand;
  }
  if (!operand.declared) operand.position = lexer_.position();
  operand.name = lexer_.name("an operand");
  if (lexer_.peek() == '=')
    lexer_.fail(operand.position,
                "the attribute {} among operands; an instruction written as an operand has none, "
                "give it a name and a line",
                operand.name);
  take_element(operand);
  resolve(operand);
  if (operand.node == nullptr && implicit && operand.name != scope_.reading)
    operand.node = implicit_parameter(operand);
  return operand;
}

// An instruction as an operand: "convert(s8[4] parameter(0))", "add(negate(p), p)". Its attributes
// could not be told from those of the instruction around it: it has none.
void ModuleParser::parse_nested_instruction(Operand& operand) {
  if (++depth_ > kMaxNested)
    lexer_.fail(operand.position,
                "instructions written as operands of one another more than {} deep are not "
                "supported; give them names",
                kMaxNested);
  Instruction instruction;
  instruction.position = operand.position;
  parse_operation(instruction);
  --depth_;
  check_required(instruction, {});
  instruction.name = made_names_.emplace_back(module_->unique_name(std::string(instruction.word)));
  instruction.key = made_names_.emplace_back(fmt::format(" {}", made_names_.size()));
  operand.name = instruction.key;
  finish(std::move(instruction));
  resolve(operand);
}

// "%t#1" is element 1 of the tuple %t, by a get-tuple-element that has no line of its own: one for
// all who read it.
void ModuleParser::take_element(Operand& operand) {
  const size_t mark = operand.name.rfind('#');
  if (mark == std::string_view::npos || scope_.nodes.contains(operand.name) ||
      scope_.deferred_names.find(operand.name) != nullptr)
    return;
  Instruction element;
  const char* const end = operand.name.data() + operand.name.size();
  const auto [last, error] =
      std::from_chars(operand.name.data() + mark + 1, end, element.attrs.index);
  if (error != std::errc() || last != end || element.attrs.index < 0) return;
  Operand tuple;
  tuple.name = operand.name.substr(0, mark);
  tuple.position = operand.position;
  if (++depth_ > kMaxNested)
    lexer_.fail(operand.position, "elements of elements more than {} deep are not supported",
                kMaxNested);
  take_element(tuple);
  --depth_;
  resolve(tuple);
  element.position = element.word_position = operand.position;
  element.word = opcode_name(Opcode::get_tuple_element);
  element.opcode = Opcode::get_tuple_element;
  std::string name(operand.name);
  for (size_t at; (at = name.find('#')) != std::string::npos;) name.replace(at, 1, ".element");
  element.name = made_names_.emplace_back(module_->unique_name(std::move(name)));
  element.key = operand.name;
  element.operands.push_back(std::move(tuple));
  finish(std::move(element));
}

// Sets the node where the operand is defined above; the type that stands before it must be its own.
void ModuleParser::resolve(Operand& operand) {
  Node* const* const found = scope_.nodes.find(operand.name);
  if (found == nullptr) return;
  operand.node = *found;
  if (operand.declared && !(*operand.declared == operand.node->shape))
    lexer_.fail(operand.position, "operand \"{}\" is written as {}, but is {}", operand.name,
                to_string(*operand.declared), to_string(operand.node->shape));
}

// A single instruction may stand alone: its operands are the parameters.
Node* ModuleParser::implicit_parameter(const Operand& operand) {
  const auto number = static_cast<int64_t>(scope_.computation->parameters().size());
  std::string_view name = operand.name;
  for (int64_t k = number; name.empty() || scope_.nodes.contains(name) || name == scope_.reading;
       ++k)
    name = made_names_.emplace_back(fmt::format("arg{}", k));
  Attributes attrs;
  attrs.index = number;
  Node* const node = append(std::string(name), Opcode::parameter, *operand.declared, {},
                            std::move(attrs), operand.position);
  scope_.nodes.emplace(name, node);
  scope_.implicit = operand.position;
  return node;
}

void ModuleParser::parse_attribute(Instruction& instruction, SeenNames& seen) {
  const size_t at = lexer_.position();
  const std::string_view key = lexer_.word("an attribute");
  if (!seen.insert(key)) lexer_.fail(at, "{}: {} is given twice", instruction.word, key);
  lexer_.expect("=", "after an attribute's name");
  if (key == "sharding") {
    instruction.sharding_position = lexer_.position();
    // That of an outfeed is of its operands, which may stand below.
    if (instruction.shape && instruction.opcode != Opcode::outfeed)
      instruction.sharding = read_sharding(lexer_, *instruction.shape);
    else
      lexer_.raw_value(key);
    const size_t start = *instruction.sharding_position;
    const std::string_view text = lexer_.text().substr(start, lexer_.position() - start);
    instruction.prevents_cse = text.find(kCsePreventionName) != std::string_view::npos;
    return;
  }
  if (key == "metadata") {
    instruction.metadata = read_metadata(lexer_);
    frames_.resolve(instruction.metadata);
    return;
  }
  if (key == "frontend_attributes") {
    instruction.frontend_attributes = read_frontend_attributes(lexer_);
    return;
  }
  if (key == "control-predecessors") {
    instruction.attrs.other.emplace(key, parse_controls());
    return;
  }
  for (const OpcodeAttribute& attribute : attributes_of(instruction.opcode))
    if (spelling(*attribute.row) == key) {
      read_attribute(*attribute.row, lexer_, instruction.attrs);
      return;
    }
  if (parse_called(instruction, key)) return;
  instruction.attrs.other.emplace(key, lexer_.raw_attribute(key));
}

// "{a, %b}" -> "{%a, %b}"; whether the names are there is known at the end of the computation.
std::string ModuleParser::parse_controls() {
  std::string text = "{";
  lexer_.expect("{", "before control-predecessors");
  while (!lexer_.accept("}")) {
    if (text.size() > 1) lexer_.expect(",", "between control-predecessors");
    const size_t at = lexer_.position();
    scope_.controls.emplace_back(lexer_.name("an instruction"), at);
    text += fmt::format("{}%{}", text.size() > 1 ? ", " : "", scope_.controls.back().first);
  }
  return text + "}";
}

// The computations behind `key`: by name or as a block, one or a list in braces.
bool ModuleParser::parse_called(Instruction& instruction, std::string_view key) {
  const std::vector<CalledAttribute>& attributes = called_row(instruction.opcode).attributes;
  const auto attribute = std::find_if(attributes.begin(), attributes.end(),
                                      [&](const CalledAttribute& a) { return a.name == key; });
  if (attribute == attributes.end()) return false;
  const size_t start = lexer_.position();
  if (lexer_.accept("{")) {
    const char next = lexer_.peek();
    const char behind = lexer_.sees_word("ROOT") ? '=' : lexer_.token_after_name();
    const bool list = next == '}' || (next == '{' ? attribute->is_list : behind != '=');
    if (!list) lexer_.seek(start);
    if (list) {
      size_t slot = attribute->slot;
      while (!lexer_.accept("}")) {
        if (slot != attribute->slot) lexer_.expect(",", "between computations");
        if (slot != attribute->slot && !attribute->is_list)
          lexer_.fail(start, "{}: {} names one computation", instruction.word, key);
        parse_call(instruction, slot++);
      }
      return true;
    }
  }
  parse_call(instruction, attribute->slot);
  return true;
}

void ModuleParser::parse_call(Instruction& instruction, size_t slot) {
  Call call;
  call.slot = slot;
  call.position = lexer_.position();
  if (slot >= instruction.called.size()) instruction.called.resize(slot + 1, false);
  if (instruction.called[slot])
    lexer_.fail(call.position, "{}: called computation {} is given in two ways", instruction.word,
                slot);
  instruction.called[slot] = true;
  if (lexer_.peek() == '{')
    call.computation = parse_inline_computation(fmt::format("{}.called", instruction.name));
  else
    call.callee = lexer_.name("a computation");
  instruction.calls.push_back(call);
}

void ModuleParser::check_required(const Instruction& instruction, const SeenNames& seen) {
  for (const OpcodeAttribute& attribute : attributes_of(instruction.opcode))
    if (attribute.presence == Presence::required && !seen.contains(spelling(*attribute.row)))
      lexer_.fail(instruction.word_position, "{}: the attribute {}=... is missing",
                  instruction.word, spelling(*attribute.row));
  const CalledRow& row = called_row(instruction.opcode);
  const size_t count = instruction.calls.size();
  bool listed = false;
  for (const CalledAttribute& attribute : row.attributes)
    listed = listed || (attribute.is_list && seen.contains(attribute.name));
  for (const CalledAttribute& attribute : row.attributes)
    if (row.least > 0 && !listed && !attribute.is_list && !seen.contains(attribute.name))
      lexer_.fail(instruction.word_position, "{}: the attribute {}=computation is missing",
                  instruction.word, attribute.name);
  if (count < row.least)
    lexer_.fail(instruction.word_position, "{}: {} called computations, at least {} are needed",
                instruction.word, count, row.least);
  for (const Call& call : instruction.calls)
    if (call.slot >= count)
      lexer_.fail(call.position, "{}: called computation {} without those before it",
                  instruction.word, call.slot);
}

// Appends the instruction, or keeps it until its operands have been read.
void ModuleParser::finish(Instruction instruction) {
  const auto missing = std::find_if(instruction.operands.begin(), instruction.operands.end(),
                                    [](const Operand& operand) { return operand.node == nullptr; });
  const std::string_view key = instruction.key;
  if (missing == instruction.operands.end()) {
    scope_.nodes.emplace(key, build(instruction));
    return;
  }
  scope_.deferred_names.emplace(key, scope_.deferred.size());
  scope_.deferred.push_back(std::move(instruction));
}

}  // namespace gspmd
