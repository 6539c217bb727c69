#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gspmd/base/flat_map.h"
#include "gspmd/ir/module.h"
#include "gspmd/ops/builders.h"
#include "gspmd/stablehlo/text.h"
#include "ir/sdy_names.h"
#include "stablehlo/row.h"
#include "stablehlo/text/location.h"

namespace gspmd::stablehlo {

// A name of the text as HLO has it, which knows fewer characters.
std::string hlo_name(std::string_view name);

// A name of the text as a key.
struct ValueName {
  std::string_view text;
  bool operator==(const ValueName&) const = default;
};

}  // namespace gspmd::stablehlo

namespace gspmd {

// Names that differ in their last character stand near one another: most are numbered in order.
template <>
inline uint32_t flat_hash(const stablehlo::ValueName& name) {
  if (name.text.empty()) return 0;
  const std::string_view stem = name.text.substr(0, name.text.size() - 1);
  return (static_cast<uint32_t>(std::hash<std::string_view>{}(stem)) & ~uint32_t{15}) |
         (static_cast<uint32_t>(name.text.back()) & 15U);
}

}  // namespace gspmd

namespace gspmd::stablehlo {

// The values that the text's names stand for in one computation.
class Frame {
 public:
  explicit Frame(Computation* computation) : computation_(computation) {}
  Computation& computation() const { return *computation_; }

  // Whether the name is new; a known one keeps what it stands for.
  bool bind(std::string_view name, Node* value) {
    Binding& binding = values_[{name}];
    if (binding.one != nullptr || binding.several != nullptr) return false;
    binding.one = value;
    return true;
  }
  void bind(std::string_view name, std::vector<Node*> values);
  // Makes room for so many names more.
  void reserve(size_t names) { values_.reserve(values_.size() + names); }
  // Results that are the elements of a tuple: taken out where they are used.
  void bind_tuple(std::string_view name, Node* tuple, int64_t first, int64_t count);
  // One result of several that the name may have.
  void bind_one(const Use& use, Node* value);
  bool knows(std::string_view name) const { return values_.contains({name}); }
  bool knows(const Use& use) { return value(use) != nullptr; }
  // nullptr: the name has no such result.
  Node* value(const Use& use);

  std::vector<Node*> returned;  // operands of the return that ended the region
  bool has_returned = false;

 private:
  // Several results of one name.
  struct Results {
    std::vector<Node*> values;
    Node* tuple = nullptr;
    int64_t first = 0;
  };
  // One value, or several: most names have one.
  struct Binding {
    Node* one = nullptr;
    std::unique_ptr<Results> several;
  };
  Computation* computation_;
  FlatMap<ValueName, Binding> values_;
};

// The processes of a program that runs inside another one: process `replica * partitions +
// partition`.
struct Processes {
  int64_t replicas = 1;
  int64_t partitions = 1;
};

// The ops of @main are not where the lines of the text said, or call others than the text said: the
// text has to be read as a whole.
struct ReadWhole {};

// Makes HLO of a module's text.
class ModuleLowering {
 public:
  ModuleLowering(Syntax& syntax, Module& module, const ReadOptions& options);
  // Also ReadWhole, and any UserError where that is the cause, of a text with unread ops.
  void run();

  Syntax& syntax() { return syntax_; }
  Module& module() { return module_; }
  Frame& frame() { return *frame_; }
  const Cursor& cursor() const { return syntax_.cursor; }

  // A region as a computation. `bind` makes its parameters and names them; values of the region
  // around it must be bound by it or be constants, which are copied. `extra` is returned behind
  // what the region returns; several values, or always where `tuple` says so, as a tuple.
  struct RegionForm {
    std::function<void(Frame&)> bind;
    std::function<std::vector<Node*>(Frame&)> extra = {};
    bool tuple = false;
  };
  Computation* lower_region(const Region& region, const std::string& name, const RegionForm& form);
  // The computation of reductions that apply one op to scalars of a type, once made, is shared.
  Computation*& applied(std::string_view op, DType dtype) { return applied_[{op, dtype}]; }
  // What regions read of the values around them, constants apart, each once.
  std::vector<Use> captured(std::span<const Region* const> regions);
  // The computation that a call of a function on these values runs.
  Computation* callee(const std::string& name, std::span<Node* const> operands, size_t position);
  // A function as the program of one process: a module of its own, for one replica of as many
  // partitions as there are processes, to which groups and ids are translated.
  std::unique_ptr<Module> program_of(const Function& function, const Processes& processes) const;
  const std::optional<Processes>& processes() const { return processes_; }
  // The computation of a function with known sizes that has been made; nullptr: there is none yet.
  Computation* lowered(const Function& function) const;
  // The value of a node of constants; nullopt where it depends on a parameter.
  std::optional<Array> known_value(const Node* node);
  // Tells that a node of a region is a value around it.
  void is_same(const Node* inner, Node* outer) { same_[inner] = outer; }

  Site site_of(size_t position) const;
  // Numbers of sharding groups and the like are those of the text.
  Metadata metadata_of(std::string_view location, size_t position);
  // An attribute as text, aliases resolved.
  std::string text_of(const Attribute& attribute);

 private:
  friend class OpLowering;
  void read_module_attributes();
  void lower_functions(const std::vector<const Function*>& callees_first);
  Computation* lower_function(const Function& function, std::span<Node* const> operands);
  void bind_parameters(const Function& function, Frame& frame, std::span<Node* const> operands,
                       bool is_entry);
  Node* finish_function(const Function& function, Frame& frame, bool is_entry);
  void add_parameter_attributes(const Argument& argument, Node* parameter, bool is_entry);
  Node* add_result_attributes(const Function& function, size_t index, Node* result);
  void lower_ops(const Ops& ops);
  void lower_unread(const UnreadBody& body);
  void lower_next(const Op& op);
  void lower_op(const Op& op);
  void bind_results(const Op& op, Node* node, const std::vector<Node*>* results);
  void copy_constants(const Region& region, Frame& outer, Frame& inner);
  const Function* find_entry() const;
  // The functions that something calls, each once, in order.
  struct Callees {
    std::vector<const Function*> in_order;
    FlatSet<const Function*> known;
  };
  void add_callee(std::string_view name, Callees& callees) const;
  void add_callees(const Op& op, Callees& callees) const;
  std::vector<const Function*> callees_of(const Function& function) const;
  bool is_dynamic(const Function& function);
  bool passes_sizes(const Region& region);
  std::string region_name(std::string name) const;
  // These and what they call, each behind what it calls.
  std::vector<const Function*> callees_first(std::span<const Function* const> functions) const;
  double work_of(const Node& node);
  double work_of(const Computation& body);
  Node* source_of(const Node& node) const;
  static const Node& runs_for(const Node& node);
  std::optional<Array> computed_value(const Node& node);

  Syntax& syntax_;
  Module& module_;
  ReadOptions options_;
  Locations locations_;
  std::vector<size_t> line_ends_;
  mutable size_t last_line_ = 0;  // whose place was asked for last
  Site file_;
  Frame* frame_ = nullptr;
  const Function* entry_ = nullptr;
  std::optional<Processes> processes_;  // of a program inside another
  std::unordered_map<const Function*, Computation*> lowered_;
  std::unordered_map<const Function*, bool> dynamic_;
  std::set<const Function*> made_for_calls_;
  std::set<std::string> function_names_;  // as HLO has them
  std::map<std::pair<std::string_view, DType>, Computation*> applied_;
  std::unordered_map<const Node*, std::optional<Array>> known_;
  std::unordered_map<const Node*, Node*> same_;          // values around regions, by those inside
  std::unordered_map<const Computation*, double> work_;  // of running them
  std::string donors_;     // of the entry's parameters, as in HLO's header
  bool has_read_ = false;  // ops that were left unread
  int depth_ = 0;          // of functions made for one call
  int64_t copies_ = 0;     // of them
};

// One op while it becomes HLO: its operands and attributes, and what it emits.
class OpLowering {
 public:
  OpLowering(ModuleLowering& lowering, const Op& op);

  const Op& op() const { return op_; }
  ModuleLowering& lowering() { return lowering_; }
  Computation& computation() { return lowering_.frame().computation(); }
  Opcode opcode() const { return op_.row->opcode; }

  // --- Operands and types
  size_t count() const { return operands_.size(); }
  Node* operand(size_t i) const;
  const std::vector<Node*>& operands() const { return operands_; }
  void need_operands(size_t least, size_t most) const;
  size_t result_count() const { return op_.result_types.size(); }
  // As declared; dims may be kUnknown.
  const Shape& result(size_t i = 0) const;
  bool is_static(size_t i = 0) const { return op_.result_types.at(i)->known; }
  // The declared shape, unknown dims taken from `like`.
  Shape result_like(const Shape& like, size_t i = 0) const;

  // --- Attributes; those without a default are needed
  const Attribute* find(std::string_view name) const { return op_.find(name); }
  const Attribute& attribute(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t standard) const;
  double real(std::string_view name) const;
  bool flag(std::string_view name, bool standard) const;
  std::string word(std::string_view name, std::string_view standard = {}) const;
  std::string string(std::string_view name, std::string_view standard = {}) const;
  Dims integers(std::string_view name) const;
  std::optional<Dims> maybe_integers(std::string_view name) const;
  // Of an attribute that is a list of numbers in any of its forms.
  Dims integers_of(const Attribute& attribute, std::string_view name) const;
  // [n,2] numbers, in pairs.
  std::vector<std::pair<int64_t, int64_t>> pairs(std::string_view name) const;
  // "#stablehlo.gather<offset_dims = [1], index_vector_dim = 1>" by key.
  Dictionary fields(const Attribute& attribute) const;

  // --- Emission
  Node* emit(Opcode opcode, std::vector<Node*> operands, Attributes attrs = {}, Shape declared = {},
             std::vector<Computation*> called = {});
  // Marks a node that stands beside the op.
  static Node* implicit(Node* node);
  // The results one by one, where they are not the elements of the node that is returned.
  void set_results(std::vector<Node*> results) { results_ = std::move(results); }
  const std::vector<Node*>* results() const { return results_ ? &*results_ : nullptr; }
  // The computation of a region whose arguments are parameters.
  Computation* body(size_t region, std::string_view name);
  const Region& region(size_t i) const;
  std::optional<Array> known_value(size_t i) { return lowering_.known_value(operand(i)); }
  // An operand that has to be known: of integers.
  Dims known_integers(size_t i);

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    fail_with(fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_with(const std::string& message) const;

 private:
  ModuleLowering& lowering_;
  const Op& op_;
  std::vector<Node*> operands_;
  std::optional<std::vector<Node*>> results_;
};

}  // namespace gspmd::stablehlo
