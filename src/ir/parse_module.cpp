#include <algorithm>

#include "gspmd/ir/place.h"
#include "gspmd/ir/text.h"
#include "ir/module_parser.h"
#include "ir/parse_attributes.h"
#include "ir/parse_shape.h"
#include "ir/verify_node.h"

namespace gspmd {
namespace {

constexpr int64_t kMaxDevices = int64_t{1} << 31;
// Inline computations inside one another; keeps the recursion short.
constexpr int kMaxDepth = 64;

}  // namespace

ModuleParser::ModuleParser(std::string_view text, std::string_view file)
    : lexer_(text, file), file_(lasting_site(file, 0)) {
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', end + 1))
    line_ends_.push_back(end);
}

// By halving: instructions are not always built in the order of the text.
Site ModuleParser::site_of(size_t position) const {
  const auto end = std::lower_bound(line_ends_.begin(), line_ends_.end(), position);
  return {file_.file, static_cast<int>(end - line_ends_.begin()) + 1};
}

std::unique_ptr<Module> ModuleParser::parse() {
  parse_header();
  while (!lexer_.at_end()) {
    if (frames_.read_table(lexer_)) continue;
    if (sees_instruction())
      parse_bare_instructions();
    else
      parse_computation();
  }
  if (module_->computations().empty())
    lexer_.fail(lexer_.position(), "the module has no computation");
  resolve_calls();
  verify();
  return std::move(module_);
}

// Text may also start with its computations, or be a list of instructions only.
void ModuleParser::parse_header() {
  if (!lexer_.accept_word("HloModule")) {
    if (lexer_.at_end()) lexer_.fail(lexer_.position(), "HLO text starts with \"HloModule name\"");
    module_ = std::make_unique<Module>();
    return;
  }
  module_ = std::make_unique<Module>(std::string(lexer_.name("the module's name")));
  lexer_.accept(":");  // as computations' names, in older text
  SeenNames seen;
  while (lexer_.accept(",")) parse_header_attribute(seen);
}

int64_t ModuleParser::parse_count(std::string_view key) {
  const size_t at = lexer_.position();
  const int64_t count = lexer_.integer(key);
  if (count < 1 || count > kMaxDevices)
    lexer_.fail(at, "{}: {} is outside 1 to {}", key, count, kMaxDevices);
  return count;
}

void ModuleParser::parse_header_attribute(SeenNames& seen) {
  const size_t at = lexer_.position();
  const std::string_view key = lexer_.word("a module attribute");
  if (!seen.insert(key)) lexer_.fail(at, "HloModule: {} is given twice", key);
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
    module_->header.emplace_back(key, tidy(lexer_.raw_value(key)));
  }
}

// An instruction outside of any computation: "ROOT a = ...", "a = ...", "f32[2] add(...)".
bool ModuleParser::sees_instruction() {
  if (lexer_.sees_word("ENTRY")) return false;
  return lexer_.sees_word("ROOT") || lexer_.token_after_name() == '=' || sees_shape(lexer_);
}

ModuleParser::Signature ModuleParser::parse_signature() {
  Signature signature;
  signature.position = lexer_.position();
  lexer_.expect("(", "before a computation's parameters");
  bool first = true;
  while (!lexer_.accept(")")) {
    if (!first) lexer_.expect(",", "between parameters");
    first = false;
    const std::string_view name = lexer_.name("a parameter's name");
    // "%p:f32[2]" is a name, a colon and a type, although ':' may stand in a name.
    const size_t colon = name.rfind(':');
    if (lexer_.peek() != ':' && colon != std::string_view::npos)
      lexer_.seek(static_cast<size_t>(name.data() - lexer_.text().data()) + colon);
    lexer_.expect(":", "after a parameter's name");
    parse_shape(lexer_);
  }
  lexer_.expect("->", "after a computation's parameters");
  signature.result = parse_shape(lexer_);
  return signature;
}

void ModuleParser::parse_computation_attributes(Computation& computation) {
  SeenNames seen;
  while (lexer_.accept(",")) {  // execution_thread="main"
    const size_t at = lexer_.position();
    const std::string_view key = lexer_.word("a computation attribute");
    if (!seen.insert(key))
      lexer_.fail(at, "computation \"{}\": {} is given twice", computation.name(), key);
    lexer_.expect("=", "after a computation attribute");
    computation.attributes.emplace_back(key, tidy(lexer_.raw_value(key)));
  }
}

void ModuleParser::parse_computation() {
  const size_t position = lexer_.position();
  const bool is_entry = lexer_.accept_word("ENTRY");
  const bool unnamed = is_entry && (lexer_.peek() == '(' || lexer_.peek() == '{');
  const std::string_view name = unnamed ? "entry" : lexer_.name("a computation");
  if (!unnamed) lexer_.accept(":");
  if (computations_.contains(name))
    lexer_.fail(position, "computation \"{}\" is defined twice", name);
  if (is_entry && module_->entry() != nullptr)
    lexer_.fail(position, "a second ENTRY; \"{}\" is one already", module_->entry()->name());
  std::optional<Signature> signature;
  if (lexer_.peek() == '(') signature = parse_signature();
  if (!lexer_.accept("{"))
    lexer_.expect("{", fmt::format("before the instructions of \"{}\"", name));
  Computation* const computation = module_->add_computation(std::string(name));
  computations_.emplace(name, computation);
  if (is_entry) module_->set_entry(computation);
  parse_body(computation, position, false);
  if (signature && !(signature->result == computation->root()->shape))
    lexer_.fail(signature->position, "\"{}\": the result is {} in the first line, {} in the body",
                name, to_string(signature->result), to_string(computation->root()->shape));
  parse_computation_attributes(*computation);
}

void ModuleParser::parse_bare_instructions() {
  const size_t position = lexer_.position();
  if (module_->entry() != nullptr)
    lexer_.fail(position, "an instruction outside of a computation; \"{}\" is the entry already",
                module_->entry()->name());
  Computation* const computation = module_->add_computation("entry");
  module_->set_entry(computation);
  parse_body(computation, position, true);
}

Computation* ModuleParser::parse_inline_computation(std::string_view base) {
  const size_t position = lexer_.position();
  if (++depth_ > kMaxDepth)
    lexer_.fail(position, "computations inside one another more than {} deep are not supported",
                kMaxDepth);
  lexer_.expect("{", "before an inline computation");
  Scope outer = std::move(scope_);
  Computation* const computation = module_->add_computation(std::string(base));
  parse_body(computation, position, false);
  scope_ = std::move(outer);
  --depth_;
  return computation;
}

void ModuleParser::parse_body(Computation* computation, size_t position, bool bare) {
  scope_ = {};
  scope_.computation = computation;
  scope_.bare = bare;
  while (bare ? !lexer_.at_end() : !lexer_.accept("}")) parse_instruction();
  close_scope(position);
}

void ModuleParser::close_scope(size_t position) {
  Computation& computation = *scope_.computation;
  append_deferred();
  if (computation.nodes().empty())
    lexer_.fail(position, "computation \"{}\" has no instruction", computation.name());
  // Without ROOT the last instruction is the root, as the field has it.
  if (computation.root() == nullptr) computation.set_root(computation.nodes().back().get());
  const std::vector<Node*>& parameters = computation.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i] == nullptr)
      lexer_.fail(position, "\"{}\": parameter({}) is missing, {} is the highest",
                  computation.name(), i, parameters.size() - 1);
  for (Node* const node : scope_.made)
    if (scope_.nodes.contains(node->name())) computation.rename(node, node->name() + "_");
  check_controls();
}

// Instructions that stand above an operand, each behind its operands, else in the order of the
// text.
void ModuleParser::append_deferred() {
  enum class Mark : uint8_t { unseen, open, done };
  std::vector<Instruction> instructions = std::move(scope_.deferred);
  std::vector<Mark> marks(instructions.size(), Mark::unseen);
  std::vector<std::pair<size_t, size_t>> stack;  // instruction, next operand
  for (size_t start = 0; start < instructions.size(); ++start) {
    if (marks[start] == Mark::done) continue;
    marks[start] = Mark::open;
    stack.emplace_back(start, 0);
    while (!stack.empty()) {
      auto& [at, next] = stack.back();
      Instruction& instruction = instructions[at];
      if (next == instruction.operands.size()) {
        scope_.nodes.emplace(instruction.key, build(instruction));
        marks[at] = Mark::done;
        stack.pop_back();
        continue;
      }
      Operand& operand = instruction.operands[next];
      if (operand.node == nullptr) resolve(operand);
      if (operand.node != nullptr) {
        ++next;
        continue;
      }
      const size_t* const below = scope_.deferred_names.find(operand.name);
      if (below == nullptr)
        lexer_.fail(operand.position, "\"{}\" is not defined in \"{}\"", operand.name,
                    scope_.computation->name());
      if (marks[*below] == Mark::open)
        lexer_.fail(operand.position, "\"{}\" reads itself through \"{}\"; operands form no cycle",
                    operand.name, instruction.name);
      marks[*below] = Mark::open;
      stack.emplace_back(*below, 0);
    }
  }
}

void ModuleParser::check_controls() {
  for (const auto& [name, position] : scope_.controls)
    if (!scope_.nodes.contains(name))
      lexer_.fail(position, "control-predecessors: \"{}\" is not defined in \"{}\"", name,
                  scope_.computation->name());
}

void ModuleParser::resolve_call(Call& call) {
  if (call.computation == nullptr) {
    const auto found = computations_.find(call.callee);
    if (found == computations_.end()) return;
    call.computation = found->second;
  }
  call.caller->called[call.slot] = call.computation;
}

void ModuleParser::resolve_calls() {
  for (Call& call : calls_) {
    resolve_call(call);
    if (call.computation == nullptr)
      lexer_.fail(call.position, "there is no computation \"{}\"", call.callee);
  }
  // Without ENTRY the last computation that nothing calls is the entry.
  if (module_->entry() == nullptr) {
    std::unordered_map<const Computation*, bool> called;
    for (const Call& call : calls_) called[call.computation] = true;
    Computation* entry = module_->computations().back().get();
    for (const auto& computation : module_->computations())
      if (!called.contains(computation.get())) entry = computation.get();
    module_->set_entry(entry);
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

std::unique_ptr<Module> parse_module(std::string_view text, std::string_view file) {
  return ModuleParser(text, file).parse();
}

}  // namespace gspmd
