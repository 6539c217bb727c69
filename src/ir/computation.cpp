#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "gspmd/base/error.h"
#include "gspmd/ir/effects.h"
#include "gspmd/ir/module.h"
#include "gspmd/ir/op.h"
#include "ir/node_marks.h"

namespace gspmd {

const OpInfo& Node::op() const {
  return opcode_ == Opcode::custom_call ? custom_call_info(*this) : op_info(opcode_);
}

bool Node::is_root() const { return parent_->root() == this; }

void Node::set_operand(int64_t i, Node* operand) {
  Node*& slot = operands_.at(static_cast<size_t>(i));
  Node* const old = slot;
  if (old == operand) return;
  // Whether it is known as a user, by the shorter list: constants have many users, tuples many
  // operands.
  const bool known =
      operand->users_.size() < operands_.size()
          ? std::find(operand->users_.begin(), operand->users_.end(), this) != operand->users_.end()
          : std::find(operands_.begin(), operands_.end(), operand) != operands_.end();
  slot = operand;
  if (!known) operand->users_.push_back(this);
  if (std::find(operands_.begin(), operands_.end(), old) == operands_.end())
    old->users_.erase(std::find(old->users_.begin(), old->users_.end(), this));
}

Node* Computation::append(Opcode opcode, Shape shape, std::vector<Node*> operands, Attributes attrs,
                          std::string name) {
  if (name.empty()) name = opcode_name(opcode);
  return append_named(module_->unique_name(std::move(name)), opcode, std::move(shape),
                      std::move(operands), std::move(attrs));
}

Node* Computation::append_as(std::string name, Opcode opcode, Shape shape,
                             std::vector<Node*> operands, Attributes attrs) {
  module_->names_.add(name);
  return append_named(std::move(name), opcode, std::move(shape), std::move(operands),
                      std::move(attrs));
}

Node* Computation::append_named(std::string&& name, Opcode opcode, Shape&& shape,
                                std::vector<Node*>&& operands, Attributes&& attrs) {
  std::unique_ptr<Node> owned(new Node);
  Node* const node = owned.get();
  node->opcode_ = opcode;
  node->name_ = std::move(name);
  node->id_ = module_->next_id();
  node->parent_ = this;
  node->shape = std::move(shape);
  node->attrs = std::move(attrs);
  node->operands_ = std::move(operands);
  for (Node* operand : node->operands_) {
    if (operand == nullptr || operand->parent_ != this)
      internal_error("{}: an operand of \"{}\" is not a node of computation \"{}\"",
                     opcode_name(opcode), node->name_, name_);
    // The new node is the last user of all its operands.
    if (operand->users_.empty() || operand->users_.back() != node) operand->users_.push_back(node);
  }
  if (opcode == Opcode::parameter) {
    const auto number = static_cast<size_t>(node->attrs.index);
    if (node->attrs.index < 0 || number > parameters_.size() + 65536)
      internal_error("parameter: number {} of \"{}\" in a computation that has {} so far",
                     node->attrs.index, node->name_, parameters_.size());
    if (number >= parameters_.size()) parameters_.resize(number + 1, nullptr);
    if (parameters_[number] != nullptr)
      internal_error("parameter: number {} of computation \"{}\" is both \"{}\" and \"{}\"", number,
                     name_, parameters_[number]->name_, node->name_);
    parameters_[number] = node;
  }
  nodes_.push_back(std::move(owned));
  return node;
}

void Computation::remove_last(Node* node) {
  if (nodes_.empty() || nodes_.back().get() != node || !node->users_.empty() || root_ == node)
    internal_error("remove_last: \"{}\" is not the last node of \"{}\", or it is read", node->name_,
                   name_);
  for (Node* operand : node->operands_) std::erase(operand->users_, node);
  if (node->opcode_ == Opcode::parameter) {
    parameters_[static_cast<size_t>(node->attrs.index)] = nullptr;
    while (!parameters_.empty() && parameters_.back() == nullptr) parameters_.pop_back();
  }
  nodes_.pop_back();
}

void Computation::replace_uses(Node* from, Node* to) {
  if (from == to) return;
  // `to` may itself read `from` (a wrapper put around it); then it would read itself.
  std::vector<Node*> kept;
  for (Node* user : from->users_) {
    if (user == to) {
      kept.push_back(user);
      continue;
    }
    // By the shorter list, as above.
    const std::vector<Node*>& read = user->operands_;
    const std::vector<Node*>& readers = to->users_;
    const bool known = readers.size() < read.size()
                           ? std::find(readers.begin(), readers.end(), user) != readers.end()
                           : std::find(read.begin(), read.end(), to) != read.end();
    if (!known) to->users_.push_back(user);
    std::replace(user->operands_.begin(), user->operands_.end(), from, to);
  }
  from->users_ = std::move(kept);
  if (root_ == from) root_ = to;
}

void Computation::replace_uses(std::span<const std::pair<Node*, Node*>> pairs) {
  FlatMap<const Node*, Node*> instead;
  instead.reserve(pairs.size());
  for (const auto& [from, to] : pairs)
    if (!instead.emplace(from, to))
      internal_error("replace_uses: \"{}\" is replaced twice", from->name_);
  FlatSet<const Node*> seen;
  std::vector<Node*> readers;
  for (const auto& [from, to] : pairs) {
    if (instead.contains(to))
      internal_error("replace_uses: \"{}\" replaces \"{}\" and is itself replaced", to->name_,
                     from->name_);
    for (Node* user : from->users_)
      if (seen.insert(user)) readers.push_back(user);
    // `to` may itself read `from`, as above.
    std::erase_if(from->users_, [to = to](const Node* user) { return user != to; });
    if (root_ == from) root_ = to;
  }
  for (Node* reader : readers) {
    FlatSet<const Node*> read;
    for (const Node* operand : reader->operands_) read.insert(operand);
    for (Node*& operand : reader->operands_) {
      Node** const found = instead.find(operand);
      if (found == nullptr || *found == reader) continue;
      operand = *found;
      if (read.insert(operand)) operand->users_.push_back(reader);
    }
  }
}

void add_needed(std::span<const Node* const> values, FlatSet<const Node*>& needed) {
  std::vector<const Node*> stack(values.begin(), values.end());
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    if (needed.insert(node))
      stack.insert(stack.end(), node->operands().begin(), node->operands().end());
  }
}

FlatSet<const Node*> needed_by(std::span<const Node* const> values) {
  FlatSet<const Node*> needed;
  add_needed(values, needed);
  return needed;
}

int64_t Computation::remove_dead() {
  NodeMarks live = running_marks(*this);
  for (const Node* parameter : parameters_)
    if (parameter != nullptr) live.insert(parameter);  // else one that is not there yet
  const auto dead = [&](const Node* node) { return !live.contains(node); };
  const auto count = static_cast<int64_t>(nodes_.size() - live.size());
  if (count == 0) return 0;
  NodeMarks told(*this);
  for (const std::unique_ptr<Node>& node : nodes_)
    if (dead(node.get()))
      for (Node* operand : node->operands_)
        if (!dead(operand) && told.insert(operand)) std::erase_if(operand->users_, dead);
  std::erase_if(nodes_, [&](const std::unique_ptr<Node>& node) { return dead(node.get()); });
  return count;
}

void Computation::sort() {
  const NodeMap<int64_t> position = node_positions(*this);
  // Depth first from each node in list order, operands before the node: what is in order stays.
  enum class Mark : uint8_t { unseen, open, done };
  std::vector<Mark> marks(nodes_.size(), Mark::unseen);
  std::vector<size_t> order;
  order.reserve(nodes_.size());
  std::vector<std::pair<size_t, size_t>> stack;  // (position, next operand)
  for (size_t start = 0; start < nodes_.size(); ++start) {
    if (marks[start] != Mark::unseen) continue;
    marks[start] = Mark::open;
    stack.emplace_back(start, 0);
    while (!stack.empty()) {
      auto& [at, next] = stack.back();
      const Node& node = *nodes_[at];
      if (next == node.operands_.size()) {
        marks[at] = Mark::done;
        order.push_back(at);
        stack.pop_back();
        continue;
      }
      const auto operand = static_cast<size_t>(position.at(node.operands_[next++]));
      if (marks[operand] == Mark::open)
        internal_error("sort: \"{}\" of computation \"{}\" reads itself through its operands",
                       nodes_[operand]->name_, name_);
      if (marks[operand] == Mark::done) continue;
      marks[operand] = Mark::open;
      stack.emplace_back(operand, 0);
    }
  }
  std::vector<std::unique_ptr<Node>> sorted;
  sorted.reserve(nodes_.size());
  for (const size_t at : order) sorted.push_back(std::move(nodes_[at]));
  nodes_ = std::move(sorted);
}

void Computation::rename(Node* node, std::string name) {
  if (node->name_ == name) return;
  node->name_ = module_->unique_name(std::move(name));
}

Node* inline_computation(const Computation& source, Computation& target,
                         std::span<Node* const> arguments) {
  if (arguments.size() != source.parameters().size())
    internal_error("inline_computation: \"{}\" has {} parameters, {} arguments were given",
                   source.name(), source.parameters().size(), arguments.size());
  FlatMap<const Node*, Node*> copies;
  copies.reserve(source.nodes().size());
  for (const std::unique_ptr<Node>& node : source.nodes()) {
    if (node->is(Opcode::parameter)) {
      copies.emplace(node.get(), arguments[static_cast<size_t>(node->attrs.index)]);
      continue;
    }
    std::vector<Node*> operands;
    operands.reserve(node->operands().size());
    for (const Node* operand : node->operands()) operands.push_back(copies.at(operand));
    Node* const copy =
        target.append(node->opcode(), node->shape, std::move(operands), node->attrs, node->name());
    copy_annotations(*node, *copy);
    copy->called = node->called;
    copies.emplace(node.get(), copy);
  }
  return copies.at(source.root());
}

}  // namespace gspmd
