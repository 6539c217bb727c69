#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gspmd/base/flat_map.h"
#include "gspmd/ir/module.h"
#include "ir/lexer.h"
#include "ir/seen_names.h"
#include "ir/stack_frames.h"

namespace gspmd {

// Reads one module. Positions are byte offsets into the text; names are views of it.
class ModuleParser {
 public:
  ModuleParser(std::string_view text, std::string_view file);
  std::unique_ptr<Module> parse();

 private:
  // "(p: f32[2]) -> f32[2]" of a computation's first line. Only the result is held against the
  // body, as the field's readers do: printers leave parameter types behind when a pass changes
  // them.
  struct Signature {
    size_t position = 0;
    Shape result;
  };

  // A computation called by a node: by a name that may be defined later in the text, or inline.
  struct Call {
    size_t slot = 0;
    std::string_view callee;
    size_t position = 0;
    Computation* computation = nullptr;
    Node* caller = nullptr;
  };

  struct Operand {
    std::string_view name;
    size_t position = 0;  // of the type, or of the name
    std::optional<Shape> declared;
    Node* node = nullptr;  // nullptr: defined further below
  };

  // What stands behind "name = ".
  struct Instruction {
    std::string_view name;
    std::string_view key;  // in the scope: the name, or of a nested instruction one no text has
    size_t position = 0;
    bool is_root = false;
    std::string_view word;  // the opcode as written
    size_t word_position = 0;
    Opcode opcode = Opcode::parameter;
    bool is_async_start = false;  // "add-start": `opcode` is what it wraps
    std::optional<Shape> shape;   // nullopt: to be inferred
    std::vector<Operand> operands;
    std::vector<Array> leaves;  // of a tuple constant
    Attributes attrs;
    std::optional<size_t> sharding_position;
    std::optional<Sharding> sharding;
    bool prevents_cse = false;  // the sharding is no annotation (ir/sharding_text.h)
    Metadata metadata;
    std::map<std::string, std::string> frontend_attributes;
    std::vector<Call> calls;
    std::vector<bool> called;  // slots that have a computation
  };

  // The computation being read; inline computations nest.
  struct Scope {
    Computation* computation = nullptr;
    FlatMap<std::string_view, Node*> nodes;
    // Instructions above one of their operands, and where they stand by name.
    std::vector<Instruction> deferred;
    FlatMap<std::string_view, size_t> deferred_names;
    std::string_view root;     // name of the ROOT instruction
    std::string_view reading;  // name of the instruction being read
    std::vector<std::pair<std::string_view, size_t>> controls;  // predecessors, positions
    std::vector<Node*> made;                                    // nodes without a line of their own
    std::optional<size_t> implicit;  // position of an operand that became a parameter
    int64_t instructions = 0;
    bool bare = false;  // instructions without a computation around them
  };

  // parse_module.cpp
  Site site_of(size_t position) const;
  void parse_header();
  void parse_header_attribute(SeenNames& seen);
  int64_t parse_count(std::string_view key);
  bool sees_instruction();
  void parse_computation();
  void parse_bare_instructions();
  Computation* parse_inline_computation(std::string_view base);
  Signature parse_signature();
  void parse_computation_attributes(Computation& computation);
  // Reads instructions up to '}' or, in a bare list, the end; then closes the scope.
  void parse_body(Computation* computation, size_t position, bool bare);
  void close_scope(size_t position);
  void append_deferred();
  void check_controls();
  void resolve_call(Call& call);
  void resolve_calls();
  void verify();

  // parse_instruction.cpp
  void parse_instruction();
  void parse_operation(Instruction& instruction);
  void parse_opcode(Instruction& instruction);
  void parse_arguments(Instruction& instruction);
  Operand parse_operand();
  void parse_nested_instruction(Operand& operand);
  void take_element(Operand& operand);
  std::string parse_controls();
  void resolve(Operand& operand);
  Node* implicit_parameter(const Operand& operand);
  void parse_attribute(Instruction& instruction, SeenNames& seen);
  bool parse_called(Instruction& instruction, std::string_view key);
  void parse_call(Instruction& instruction, size_t slot);
  void check_required(const Instruction& instruction, const SeenNames& seen);
  void finish(Instruction instruction);

  // build_node.cpp
  Node* build(Instruction& instruction);
  std::string made_name(const Instruction& instruction, std::string_view suffix);
  std::optional<DType> unify_precision(Instruction& instruction);
  void split_start_vector(Instruction& instruction);
  Node* build_tuple_constant(Instruction& instruction);
  Node* build_async_start(Instruction& instruction);
  // build_bitcast.cpp
  static bool reorders(const Instruction& bitcast);
  Node* build_bitcast(Instruction& bitcast);
  // build_node.cpp
  Node* append(std::string name, Opcode opcode, Shape shape, std::vector<Node*> operands,
               Attributes attrs, size_t position);
  void attach_calls(Node* node, std::vector<Call>& calls);
  void annotate(Node* node, Instruction& instruction);
  Shape infer(Node& node, const Instruction& instruction);

  Lexer lexer_;
  Site file_;
  std::vector<size_t> line_ends_;  // positions of '\n'
  std::unique_ptr<Module> module_;
  StackFrames frames_;
  std::vector<Call> calls_;
  std::vector<size_t> positions_;  // of nodes, by id
  std::unordered_map<std::string_view, Computation*> computations_;
  std::deque<std::string> made_names_;
  Scope scope_;
  int depth_ = 0;
};

}  // namespace gspmd
