#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gspmd/base/name_table.h"
#include "gspmd/ir/module.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo {

// What stands for a node in the text: a value, or values of a tuple that the text has one by one.
struct Written {
  std::string name;
  std::vector<Written> elements;
  bool is_pack = false;
  const Node* constant = nullptr;  // that regions make anew: a constant or iota
};

// What nodes of a module stand for, by their ids; what it holds stays where it is.
class WrittenValues {
 public:
  const Written* find(const Node* node) const {
    const auto id = static_cast<size_t>(node->id());
    return id < values_.size() ? values_[id].get() : nullptr;
  }
  void set(const Node* node, Written value) {
    const auto id = static_cast<size_t>(node->id());
    if (id >= values_.size()) values_.resize(std::max(id + 1, 2 * values_.size()));
    values_[id] = std::make_unique<Written>(std::move(value));
  }
  // Takes it out; nullptr where there is none.
  std::unique_ptr<Written> extract(const Node* node) {
    const auto id = static_cast<size_t>(node->id());
    return id < values_.size() ? std::move(values_[id]) : nullptr;
  }
  void clear() { values_.clear(); }

 private:
  std::vector<std::unique_ptr<Written>> values_;
};

using Fields = std::vector<std::pair<std::string, std::string>>;  // name, text; "" is a key alone

// Writes a module's functions.
class Writer {
 public:
  Writer(const Module& module, const StableHloOptions& options)
      : module_(module), options_(options) {}
  void write(const std::function<void(std::string_view)>& sink);

  // --- For the rows that write ops
  const Module& module() const { return module_; }
  // The name of a value; values that the text has one by one are made a tuple.
  std::string name_of(const Node* node);
  std::string name_of(const Written& value, const Shape& shape);
  // The elements of a tuple, taken out where the text has it as one value.
  std::vector<Written> elements_of(const Node* node);
  const Written& written(const Node* node);
  void bind(const Node* node, Written value) { values_.set(node, std::move(value)); }
  // A line of one op: its results are those of the node, by its shape.
  void line(const Node& node, const std::string& op);
  // The same of an op whose result is one value, also where that is a tuple.
  void line_of_one(const Node& node, const std::string& op);
  // A line whose results are given: "%3 = op".
  void raw_line(const std::string& text);
  std::string new_number();
  // "%c", "%c_0", ...
  std::string new_name(const std::string& base);
  // A literal; of a large one a mark that stands for it until the text is handed on.
  std::string literal(const Array& array);
  std::string new_argument() { return "%arg" + std::to_string(arguments_++); }

  // A computation as a region, "{", "^bb0(..):" and lines, "}". `parameters`: what its parameters
  // are in the text; empty: arguments of the block. `drop`: elements at the end of the root that
  // are not returned.
  std::string region(const Computation& computation, const std::vector<Written>& parameters,
                     size_t drop = 0);
  // The same of arguments that are named already: without "^bb0".
  std::string body(const Computation& computation, const std::vector<Written>& parameters,
                   std::string_view terminator, size_t drop = 0, bool isolated = false);
  // A branch that reads the value around it that its parameter is; constants are written inside.
  std::string branch(const Computation& computation, const Node* operand);
  // A function's name for a computation that is called.
  std::string symbol(const Computation& computation);

  // The discardable attributes of a node, but frontend attributes that its form says.
  Fields discardable(const Node& node, std::span<const std::string_view> said = {}) const;
  // Gives a node's results their number now: before those inside its regions.
  void reserve(const Node& node);

 private:
  std::string number_of(const Node& node);  // reserved or new
  void write_header(std::string& text);
  void write_function(std::string& text, const Computation& computation);
  Written inside(const Written& value);
  void write_nodes(const Computation& computation);
  void write_node(const Node& node);
  std::string write_return(const Computation& computation, std::string_view terminator,
                           size_t drop);
  std::vector<Written> results_of(const Computation& computation);
  std::string result_attributes(const Computation& computation, size_t index);
  // Whether an attribute of the module is written at the result of a function.
  bool is_said_by_result(const std::string& name, const std::string& value) const;
  std::string parameter_attributes(const Node& parameter) const;
  std::vector<const Computation*> functions();
  void hand_on(std::string_view text, const std::function<void(std::string_view)>& sink) const;
  std::string indent() const { return std::string(2 * depth_, ' '); }

  const Module& module_;
  StableHloOptions options_;
  std::string out_;
  size_t depth_ = 0;
  int64_t numbers_ = 0, arguments_ = 0, suffixes_ = 0;
  int64_t lines_ = 0;
  std::vector<const Array*> literals_;  // large ones, by the number of their mark
  const Node* captured_ = nullptr;      // what the only parameter of the next body is
  NameTable names_;
  std::unordered_map<const Node*, std::string> reserved_;
  WrittenValues values_;
  std::map<std::string, const Computation*> symbols_;
  std::unordered_map<const Computation*, std::string> symbol_of_;
  std::map<std::string_view, size_t> result_counts_;  // of functions, by the computation's name
};

// One op while it is written.
class OpWriter {
 public:
  OpWriter(Writer& writer, const Node& node) : writer_(writer), node_(node) {}
  Writer& writer() { return writer_; }
  const Node& node() const { return node_; }
  const gspmd::Attributes& attrs() const { return node_.attrs; }

  std::string operand(size_t i) { return writer_.name_of(node_.operands()[i]); }
  std::string operands();       // "%0, %1"
  std::string operand_types();  // "T, T"
  std::string result_types();   // "T", or "(T, T)"
  std::string function_type();  // "(T, T) -> T"
  // " {a = 1}" of the discardable attributes and these; "" where there is none. `said`: frontend
  // attributes that the form says already.
  std::string dictionary(Fields own = {}, std::span<const std::string_view> said = {}) const;
  // A called computation as a region; operands are written before it.
  std::string region(size_t i);
  // "name" then a custom form: what stands before and behind the dictionary.
  void custom(const std::string& before, const std::string& type, Fields own = {});
  // The generic form.
  void generic(const std::string& name, Fields properties, const std::string& regions = "");

 private:
  Writer& writer_;
  const Node& node_;
};

struct PrintRow {
  Opcode opcode;
  std::string_view name;  // of the op
  void (*write)(OpWriter& op, std::string_view name) = nullptr;
};

// nullptr: StableHLO has no form of the opcode.
const PrintRow* find_print_row(Opcode opcode);
std::span<const PrintRow> plain_print_rows();
std::span<const PrintRow> region_print_rows();
std::span<const PrintRow> host_print_rows();

// Writes custom-calls: Shardy's ops and others.
void write_custom_call(OpWriter& op, std::string_view name);
// A custom-call that stands for an op of Shardy; whether it did.
bool write_sdy_custom_call(OpWriter& op);
// A call of a manual or named computation; whether it was one.
bool write_sdy_call(OpWriter& op);
// Whether a node only says the sharding of a function's results: an annotation that nothing but the
// root reads, whose own sharding does not say it.
bool is_result_sharding(const Node& node);
size_t result_count(const Computation& function);
// Whether the node is the part of a manual computation that its last part is written for.
bool is_part_of_manual(const Node& node);
// How the call of a composite is written; none where what it carries is no composite's.
struct CompositeForm {
  std::string name;
  Fields fields;
};
std::optional<CompositeForm> composite_form(const Node& call);
// Whether the call is written as a manual computation, its computation as the region.
bool is_manual_call(const Node& call);

// --- Pieces of text
std::string list_text(const Dims& dims);           // "[1, 0]"
std::string array_text(const Dims& dims);          // "array<i64: 1, 0>"
std::string fields_text(Fields fields);            // "a = 1, b", sorted
std::string symbol_text(const std::string& name);  // "@f"
// A frontend attribute, as the attribute of its `own` name where its value is one, else as it is
// among the frontend attributes. `own`: "" where it has none.
void add_attribute(std::string_view own, const std::string& name, const std::string& value,
                   Fields& fields, Fields& frontend);

}  // namespace gspmd::stablehlo
