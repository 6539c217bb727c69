#include <set>
#include <unordered_map>

#include "gspmd/ir/op.h"
#include "gspmd/ir/text.h"
#include "ir/attribute_table.h"
#include "ir/parse_attributes.h"
#include "ir/parse_literal.h"
#include "ir/parse_shape.h"
#include "ir/stack_frames.h"
#include "ir/verify_node.h"

namespace gspmd {
namespace {

constexpr int64_t kMaxDevices = int64_t{1} << 31;

// "(p: f32[2]) -> f32[2]" of a computation's first line.
struct Signature {
  size_t position = 0;
  std::vector<Shape> parameters;
  Shape result;
};

// A computation called by name, which may be defined later in the text.
struct Call {
  Node* caller;
  size_t slot;
  std::string_view callee;
  size_t position;
};

// What stands behind "name = type opcode(".
struct Instruction {
  Opcode opcode = Opcode::parameter;
  Shape shape;
  std::vector<Node*> operands;
  Attributes attrs;
  std::optional<Sharding> sharding;
  Metadata metadata;
  std::map<std::string, std::string> frontend_attributes;
  std::vector<Call> calls;
};

class ModuleParser {
 public:
  ModuleParser(std::string_view text, std::string_view file) : lexer_(text, file) {}

  std::unique_ptr<Module> parse() {
    parse_header();
    while (!lexer_.at_end())
      if (!frames_.read_table(lexer_)) parse_computation();
    if (module_->computations().empty())
      lexer_.fail(lexer_.position(), "the module has no computation");
    if (module_->entry() == nullptr) module_->set_entry(module_->computations().back().get());
    resolve_calls();
    verify();
    return std::move(module_);
  }

 private:
  void parse_header();
  void parse_header_attribute();
  int64_t parse_count(std::string_view key);
  void parse_computation();
  Signature parse_signature();
  void check_signature(const Computation& computation, const Signature& signature);
  void check_parameters(const Computation& computation, size_t position);
  void parse_instruction();
  void parse_arguments(Instruction& instruction);
  Node* parse_operand();
  void parse_attribute(Instruction& instruction);
  void parse_called(Instruction& instruction, size_t slot, size_t position);
  void check_required(const Instruction& instruction, size_t position);
  void resolve_calls();
  void verify();

  Lexer lexer_;
  std::unique_ptr<Module> module_;
  StackFrames frames_;
  std::vector<Call> calls_;
  std::vector<size_t> positions_;  // of nodes, by id
  std::unordered_map<std::string_view, std::pair<Computation*, size_t>> computations_;
  // Of the computation and of the instruction being read.
  Computation* computation_ = nullptr;
  std::unordered_map<std::string_view, Node*> nodes_;
  std::set<std::string_view> seen_;  // attribute names
};

void ModuleParser::parse_header() {
  if (!lexer_.accept_word("HloModule"))
    lexer_.fail(lexer_.position(), "HLO text starts with \"HloModule name\"");
  module_ = std::make_unique<Module>(std::string(lexer_.name("the module's name")));
  while (lexer_.accept(",")) parse_header_attribute();
}

int64_t ModuleParser::parse_count(std::string_view key) {
  const size_t at = lexer_.position();
  const int64_t count = lexer_.integer(key);
  if (count < 1 || count > kMaxDevices)
    lexer_.fail(at, "{}: {} is outside 1 to {}", key, count, kMaxDevices);
  return count;
}

void ModuleParser::parse_header_attribute() {
  const size_t at = lexer_.position();
  const std::string_view key = lexer_.name("a module attribute");
  if (!seen_.insert(key).second) lexer_.fail(at, "HloModule: {} is given twice", key);
  lexer_.expect("=", "after a module attribute");
  if (key == "num_partitions") {
    module_->num_partitions = parse_count(key);
  } else if (key == "replica_count") {
    module_->num_replicas = parse_count(key);
  } else if (key == "input_output_alias") {
    module_->aliases = read_aliases(lexer_);
  } else if (key == "frontend_attributes") {
    module_->frontend_attributes = read_frontend_attributes(lexer_);
  } else {
    module_->header.emplace_back(key, lexer_.raw_value(key));
  }
}

Signature ModuleParser::parse_signature() {
  Signature signature;
  signature.position = lexer_.position();
  lexer_.expect("(", "before a computation's parameters");
  while (!lexer_.accept(")")) {
    if (!signature.parameters.empty()) lexer_.expect(",", "between parameters");
    lexer_.name("a parameter's name");
    lexer_.expect(":", "after a parameter's name");
    signature.parameters.push_back(parse_shape(lexer_));
  }
  lexer_.expect("->", "after a computation's parameters");
  signature.result = parse_shape(lexer_);
  return signature;
}

void ModuleParser::check_signature(const Computation& computation, const Signature& signature) {
  const std::vector<Node*>& parameters = computation.parameters();
  if (signature.parameters.size() != parameters.size())
    lexer_.fail(signature.position, "\"{}\": {} parameters in the first line, {} in the body",
                computation.name(), signature.parameters.size(), parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!(signature.parameters[i] == parameters[i]->shape))
      lexer_.fail(signature.position,
                  "\"{}\": parameter {} is {} in the first line, {} in the body",
                  computation.name(), i, to_string(signature.parameters[i]),
                  to_string(parameters[i]->shape));
  if (!(signature.result == computation.root()->shape))
    lexer_.fail(signature.position, "\"{}\": the result is {} in the first line, {} in the body",
                computation.name(), to_string(signature.result),
                to_string(computation.root()->shape));
}

void ModuleParser::check_parameters(const Computation& computation, size_t position) {
  const std::vector<Node*>& parameters = computation.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i] == nullptr)
      lexer_.fail(position, "\"{}\": parameter({}) is missing, {} is the highest",
                  computation.name(), i, parameters.size() - 1);
}

void ModuleParser::parse_computation() {
  const size_t position = lexer_.position();
  const bool is_entry = lexer_.accept_word("ENTRY");
  const std::string_view name = lexer_.name("a computation");
  if (computations_.contains(name))
    lexer_.fail(position, "computation \"{}\" is defined twice", name);
  if (is_entry && module_->entry() != nullptr)
    lexer_.fail(position, "a second ENTRY; \"{}\" is one already", module_->entry()->name());
  std::optional<Signature> signature;
  if (lexer_.peek() == '(') signature = parse_signature();
  lexer_.expect("{", fmt::format("before the instructions of \"{}\"", name));
  computation_ = module_->add_computation(std::string(name));
  computations_.emplace(name, std::pair{computation_, position});
  if (is_entry) module_->set_entry(computation_);
  nodes_.clear();
  while (!lexer_.accept("}")) parse_instruction();
  if (computation_->nodes().empty())
    lexer_.fail(position, "computation \"{}\" has no instruction", name);
  // Without ROOT the last instruction is the root, as XLA has it.
  if (computation_->root() == nullptr) computation_->set_root(computation_->nodes().back().get());
  check_parameters(*computation_, position);
  if (signature) check_signature(*computation_, *signature);
  while (lexer_.accept(",")) {  // execution_thread="main"
    const std::string_view key = lexer_.name("a computation attribute");
    lexer_.expect("=", "after a computation attribute");
    lexer_.raw_value(key);
  }
}

void ModuleParser::parse_instruction() {
  const size_t start = lexer_.position();
  const bool is_root = lexer_.accept_word("ROOT");
  const size_t position = lexer_.position();
  const std::string_view name = lexer_.name("an instruction or '}'");
  if (nodes_.contains(name))
    lexer_.fail(position, "\"{}\" is defined twice in \"{}\"", name, computation_->name());
  if (is_root && computation_->root() != nullptr)
    lexer_.fail(start, "a second ROOT; \"{}\" is one already", computation_->root()->name());
  lexer_.expect("=", "after an instruction's name");
  Instruction instruction;
  instruction.shape = parse_shape(lexer_);
  const size_t at = lexer_.position();
  const std::string_view word = lexer_.name("an opcode");
  const std::optional<Opcode> opcode = opcode_from_name(word);
  if (!opcode)
    lexer_.fail(at, "unknown opcode \"{}\"; `gspmd ops` lists those that are known", word);
  instruction.opcode = *opcode;
  lexer_.expect("(", "after the opcode");
  parse_arguments(instruction);
  lexer_.expect(")", fmt::format("after the operands of {}", word));
  seen_.clear();
  while (lexer_.accept(",")) parse_attribute(instruction);
  check_required(instruction, at);

  Node* const node =
      computation_->append_as(std::string(name), *opcode, std::move(instruction.shape),
                              std::move(instruction.operands), std::move(instruction.attrs));
  node->sharding = std::move(instruction.sharding);
  node->metadata = std::move(instruction.metadata);
  node->frontend_attributes = std::move(instruction.frontend_attributes);
  const auto phase = node->frontend_attributes.find("gspmd.phase");
  if (phase != node->frontend_attributes.end() && phase->second == "backward") {
    node->backward = true;
    node->frontend_attributes.erase(phase);
  }
  node->called.resize(instruction.calls.size());
  for (Call& call : instruction.calls) {
    call.caller = node;
    calls_.push_back(call);
  }
  nodes_.emplace(name, node);
  positions_.push_back(position);
  if (is_root) computation_->set_root(node);
}

void ModuleParser::parse_arguments(Instruction& instruction) {
  if (instruction.opcode == Opcode::parameter) {
    const size_t at = lexer_.position();
    const int64_t number = lexer_.integer("a parameter number");
    const std::vector<Node*>& known = computation_->parameters();
    if (number < 0 || number > 65535)
      lexer_.fail(at, "parameter: number {} is outside 0 to 65535", number);
    if (static_cast<size_t>(number) < known.size() && known[static_cast<size_t>(number)])
      lexer_.fail(at, "parameter: number {} is \"{}\" already", number,
                  known[static_cast<size_t>(number)]->name());
    instruction.attrs.index = number;
  } else if (instruction.opcode == Opcode::constant) {
    instruction.attrs.literal = parse_literal(lexer_, instruction.shape);
  } else {
    while (lexer_.peek() != ')') {
      if (!instruction.operands.empty()) lexer_.expect(",", "between operands");
      instruction.operands.push_back(parse_operand());
    }
  }
}

Node* ModuleParser::parse_operand() {
  std::optional<Shape> declared;
  const size_t start = lexer_.position();
  if (sees_shape(lexer_)) declared = parse_shape(lexer_);
  const size_t at = lexer_.position();
  const std::string_view name = lexer_.name("an operand");
  const auto found = nodes_.find(name);
  if (found == nodes_.end())
    lexer_.fail(at,
                "\"{}\" is not defined above in \"{}\"; an instruction stands below its operands",
                name, computation_->name());
  if (declared && !(*declared == found->second->shape))
    lexer_.fail(start, "operand \"{}\" is written as {}, but is {}", name, to_string(*declared),
                to_string(found->second->shape));
  return found->second;
}

void ModuleParser::parse_attribute(Instruction& instruction) {
  const size_t at = lexer_.position();
  const std::string_view key = lexer_.name("an attribute");
  if (!seen_.insert(key).second)
    lexer_.fail(at, "{}: {} is given twice", opcode_name(instruction.opcode), key);
  lexer_.expect("=", "after an attribute's name");
  const size_t value = lexer_.position();
  if (key == "sharding") {
    instruction.sharding = read_sharding(lexer_, instruction.shape);
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
  for (const OpcodeAttribute& attribute : attributes_of(instruction.opcode))
    if (spelling(*attribute.row) == key) {
      read_attribute(*attribute.row, lexer_, instruction.attrs);
      return;
    }
  const std::span<const std::string_view> called = called_names(instruction.opcode);
  for (size_t slot = 0; slot < called.size(); ++slot)
    if (called[slot] == key) {
      parse_called(instruction, slot, value);
      return;
    }
  instruction.attrs.other.emplace(key, lexer_.raw_value(key));
}

void ModuleParser::parse_called(Instruction& instruction, size_t slot, size_t position) {
  instruction.calls.push_back({nullptr, slot, lexer_.name("a computation"), position});
}

void ModuleParser::check_required(const Instruction& instruction, size_t position) {
  const std::string_view opcode = opcode_name(instruction.opcode);
  for (const OpcodeAttribute& attribute : attributes_of(instruction.opcode))
    if (attribute.presence == Presence::required && !seen_.contains(spelling(*attribute.row)))
      lexer_.fail(position, "{}: the attribute {}=... is missing", opcode,
                  spelling(*attribute.row));
  for (const std::string_view name : called_names(instruction.opcode))
    if (!seen_.contains(name))
      lexer_.fail(position, "{}: the attribute {}=computation is missing", opcode, name);
}

void ModuleParser::resolve_calls() {
  for (const Call& call : calls_) {
    const auto found = computations_.find(call.callee);
    if (found == computations_.end())
      lexer_.fail(call.position, "there is no computation \"{}\"", call.callee);
    call.caller->called[call.slot] = found->second.first;
  }
  try {
    module_->sort_computations();
  } catch (const UserError& error) {
    const std::string_view message = error.what();
    for (const Call& call : calls_) {
      const std::string cycle = fmt::format("\"{}\" calls itself through \"{}\"", call.callee,
                                            call.caller->parent().name());
      if (message.find(cycle) != std::string_view::npos)
        lexer_.fail_at(call.position, error.what());
    }
    throw;
  }
}

void ModuleParser::verify() {
  for (const std::unique_ptr<Computation>& computation : module_->computations())
    for (const std::unique_ptr<Node>& node : computation->nodes()) {
      try {
        verify_node(*node);
      } catch (const UserError& error) {
        lexer_.fail_at(positions_[static_cast<size_t>(node->id())], error.what());
      }
    }
  try {
    verify_aliases(*module_);
  } catch (const UserError& error) {
    const size_t header = lexer_.text().find("input_output_alias");
    lexer_.fail_at(header, error.what());
  }
}

}  // namespace

std::unique_ptr<Module> parse_module(std::string_view text, std::string_view file) {
  return ModuleParser(text, file).parse();
}

}  // namespace gspmd
