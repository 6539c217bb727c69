#pragma once

// Modules, computations and instructions: the graph that all passes work on.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/base/flat_map.h"
#include "gspmd/base/name_table.h"
#include "gspmd/base/rare.h"
#include "gspmd/ir/attributes.h"
#include "gspmd/ir/opcode.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

class Computation;
class Module;
class Node;
struct OpInfo;

// One step of the way an element of a sharding came: which neighbour gave (dim, digit), and the
// annotation it started from. Names of nodes in the same module.
struct Origin {
  int64_t leaf = 0;        // of a tuple; 0 for arrays
  int64_t dim = 0;         // -1: an unreduced or manual digit
  Digit digit;             // the digit that came
  std::string annotation;  // node whose sharding the user gave
  std::string via;         // neighbour it came through; empty on the annotated node itself
};

// One instruction. Identity object owned by its computation; values (shape, attributes, sharding)
// are fields. Operand edges are kept in step with `users()`.
class GSPMD_API Node {
 private:  // first, side by side: what every walk over a graph reads of each node
  Opcode opcode_ = Opcode::parameter;
  int64_t id_ = 0;
  Computation* parent_ = nullptr;
  std::vector<Node*> operands_;
  std::vector<Node*> users_;

 public:
  Opcode opcode() const { return opcode_; }                   // which op it is
  const OpInfo& op() const;                                   // the op table's row
  bool is(Opcode opcode) const { return opcode_ == opcode; }  // opcode() == opcode
  // Without %. Unique in its computation; names that the library makes are unique in the module
  // (text of other origin may use one name in two computations, and names are kept as they are
  // read).
  const std::string& name() const { return name_; }
  int64_t id() const { return id_; }                // creation order in the module
  Computation& parent() const { return *parent_; }  // the computation that owns it

  // In order; one node may be there several times.
  const std::vector<Node*>& operands() const { return operands_; }
  // The i-th, from 0.
  Node* operand(int64_t i) const { return operands_.at(static_cast<size_t>(i)); }
  // Each user once, in creation order of the use.
  const std::vector<Node*>& users() const { return users_; }
  // The old operand forgets this user, the new one learns of it.
  void set_operand(int64_t i, Node* operand);

  // Called computations: [to_apply], [calls]; while: [condition, body]; select-and-scatter:
  // [select, scatter]; conditional: [branch 0, branch 1, ...], of a pred [true, false];
  // custom-call: any number.
  std::vector<Computation*> called;
  // --- What passes read and write
  Shape shape;
  std::optional<Sharding> sharding;
  Attributes attrs;
  std::vector<Origin> origins;
  Metadata metadata;
  Rare<std::map<std::string, std::string>> frontend_attributes;
  bool backward = false;  // phase=backward; printed as frontend attribute gspmd.phase="backward"

  // --- Of an array's shape
  const Dims& dims() const { return shape.dims; }
  int64_t dim(int64_t i) const { return shape.dims.at(static_cast<size_t>(i)); }
  int64_t rank() const { return shape.rank(); }
  bool is_root() const;  // whether it is the parent's root

 private:
  friend class Computation;
  friend class Module;
  Node() = default;
  std::string name_;
};

// A list of nodes, operands before users, with parameters and one root.
class GSPMD_API Computation {
 public:
  const std::string& name() const { return name_; }  // unique in the module
  Module& module() const { return *module_; }        // the module that owns it
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }  // operands first
  const std::vector<Node*>& parameters() const { return parameters_; }        // by number
  Node* root() const { return root_; }         // nullptr until it is set
  void set_root(Node* root) { root_ = root; }  // a node of this computation
  // What HLO text has behind the closing brace, raw, in order: execution_thread="main".
  std::vector<std::pair<std::string, std::string>> attributes;

  // Appends a node without inferring or checking (readers and passes that know the shape). `name`
  // is made unique by a suffix ".N"; empty = the opcode's name.
  Node* append(Opcode opcode, Shape shape, std::vector<Node*> operands, Attributes attrs = {},
               std::string name = {});
  // As append, with exactly this name, which no other node of the computation has (readers of
  // text).
  Node* append_as(std::string name, Opcode opcode, Shape shape, std::vector<Node*> operands,
                  Attributes attrs = {});
  // Makes every user of `from` (and the root) read `to`; only `to` itself keeps reading `from`.
  void replace_uses(Node* from, Node* to);
  // The same of many (from, to) in the time that all their readers' operands take: each reader is
  // gone through once. InternalError where a node is replaced twice, or replaces and is replaced.
  void replace_uses(std::span<const std::pair<Node*, Node*>> pairs);
  // Removes nodes that neither the root nor a node with side effects reaches; parameters stay.
  // Returns how many.
  int64_t remove_dead();
  // Takes back the last append, of a node that nothing reads (a builder whose shape check failed).
  void remove_last(Node* node);
  // Restores "operands first" after edits: a node moves only to stand before its first reader.
  // InternalError on a cycle.
  void sort();
  void rename(Node* node, std::string name);  // The new name is not in use.

 private:
  friend class Module;
  Computation() = default;
  // As append_as, of a name that the module knows.
  Node* append_named(std::string&& name, Opcode opcode, Shape&& shape,
                     std::vector<Node*>&& operands, Attributes&& attrs);
  std::string name_;
  Module* module_ = nullptr;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Node*> parameters_;
  Node* root_ = nullptr;
};

// One leaf of the result that may share storage with one leaf of a parameter (HLO
// input_output_alias).
struct Alias {
  Dims output;              // index path into the root tuple
  int64_t parameter = 0;    // entry parameter number
  Dims parameter_index;     // index path into that parameter
  bool must_alias = false;  // the alias is required, not only allowed
  bool operator==(const Alias&) const = default;
};

// A program: computations, the entry last. Not copyable; clone() copies.
class GSPMD_API Module {
 public:
  explicit Module(std::string name = "module");  // an empty module
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  std::string name;            // after HloModule in the text
  int64_t num_partitions = 1;  // devices that the program is for
  int64_t num_replicas = 1;    // copies with their own data; passes support 1
  std::vector<Alias> aliases;  // outputs that may take over the storage of parameters
  std::map<std::string, std::string> frontend_attributes;  // of the module, as in the text
  // Header attributes without a field, raw, in order: entry_computation_layout={...}, ...
  std::vector<std::pair<std::string, std::string>> header;

  // An empty computation; the name is made unique by a suffix.
  Computation* add_computation(std::string name);
  // Callees first.
  const std::vector<std::unique_ptr<Computation>>& computations() const { return computations_; }
  Computation* entry() const { return entry_; }           // where execution begins
  void set_entry(Computation* entry) { entry_ = entry; }  // a computation of this module
  Computation* find(std::string_view computation) const;  // nullptr: none of this name
  std::unique_ptr<Module> clone() const;                  // a copy with the same names; ids anew
  void remove_computation(Computation* computation);      // one that nobody calls
  // Restores "callees first, the entry last", else in the present order. UserError on recursion.
  void sort_computations();
  // Removes computations that the entry does not reach.
  int64_t remove_unreachable();
  // Removes aliases whose two ends are not there or differ in shape: storage cannot be shared
  // between shards of different shapes. Returns how many.
  int64_t remove_unfit_aliases();
  std::string unique_name(std::string base);  // "dot" -> "dot", "dot.1", "dot.2"
  int64_t next_id() { return next_id_++; }    // for a new node

 private:
  friend class Computation;
  std::vector<std::unique_ptr<Computation>> computations_;
  Computation* entry_ = nullptr;
  int64_t next_id_ = 0;
  NameTable names_, computation_names_;
  std::map<std::string, Computation*, std::less<>> by_name_;
};

// The shapes at the two ends of an alias of the entry; nullptr where the index leads nowhere.
GSPMD_API const Shape* output_shape(const Module& module, const Alias& alias);
// The shape of the alias's parameter leaf.
GSPMD_API const Shape* parameter_shape(const Module& module, const Alias& alias);

// These values of one computation and all that they are made of.
GSPMD_API FlatSet<const Node*> needed_by(std::span<const Node* const> values);
// Adds them to `needed`, which has of each node that it has all that this is made of.
GSPMD_API void add_needed(std::span<const Node* const> values, FlatSet<const Node*>& needed);

// Sharding, origins, metadata, frontend attributes and phase.
GSPMD_API void copy_annotations(const Node& from, Node& to);

// Copies `source`'s nodes into `target`, parameters replaced by `arguments`; returns the copied
// root.
GSPMD_API Node* inline_computation(const Computation& source, Computation& target,
                                   std::span<Node* const> arguments);

}  // namespace gspmd
