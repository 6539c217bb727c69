#include "gspmd/passes/prepare/join_async.h"

#include <algorithm>
#include <vector>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "passes/graph/rewrite.h"

namespace gspmd {
namespace {

// An operation that text begins and ends apart.
struct AsyncPair {
  Opcode start, done;
  Opcode joined;   // does both
  int64_t result;  // which element of what the start gives is the result; -1: all of it is
};
constexpr AsyncPair kPairs[] = {
    {Opcode::all_reduce_start, Opcode::all_reduce_done, Opcode::all_reduce, -1},
    {Opcode::all_gather_start, Opcode::all_gather_done, Opcode::all_gather, 1},
    {Opcode::collective_permute_start, Opcode::collective_permute_done, Opcode::collective_permute,
     1},
    {Opcode::copy_start, Opcode::copy_done, Opcode::copy, 0},
    {Opcode::async_start, Opcode::async_done, Opcode::call, 1},
};

const AsyncPair* pair_of(Opcode AsyncPair::*side, const Node& node) {
  const auto found = std::find_if(std::begin(kPairs), std::end(kPairs),
                                  [&](const AsyncPair& pair) { return node.is(pair.*side); });
  return found == std::end(kPairs) ? nullptr : found;
}

// What a -done ends, through the updates between.
Node* start_of(const Node& done) {
  Node* node = done.operand(0);
  while (node->is(Opcode::async_update)) node = node->operand(0);
  return node;
}

// Updates may bind operands behind those of the start. `end`: the last of them, or the start.
std::vector<Node*> bound_operands(const Node& start, const Node* end, const Node& reader) {
  std::vector<const Node*> updates;
  for (; end != &start; end = end->operand(0)) updates.push_back(end);
  std::vector<Node*> operands = start.operands();
  for (; !updates.empty(); updates.pop_back()) {
    const std::vector<Node*>& more = updates.back()->operands();
    operands.insert(operands.end(), more.begin() + 1, more.end());
  }
  if (start.is(Opcode::async_start) && operands.size() != start.called.at(0)->parameters().size())
    user_error(place_of(reader), "{}: \"{}\" {} a call of \"{}\" with {} of its {} operands bound",
               opcode_name(reader.opcode()), reader.name(), &reader == &start ? "begins" : "ends",
               start.called[0]->name(), operands.size(), start.called[0]->parameters().size());
  return operands;
}

Node* append_joined(Computation& c, const AsyncPair& pair, const Node& start, const Shape& shape,
                    std::vector<Node*> operands, std::string name) {
  Attributes attrs = start.attrs;
  std::erase_if(attrs.other.edit(), [](const auto& entry) { return entry.first != "slice_sizes"; });
  Node* const joined =
      c.append(pair.joined, shape, std::move(operands), std::move(attrs), std::move(name));
  joined->called = start.called;
  return joined;
}

Node* zeros(Computation& c, const Shape& shape) {
  if (!shape.is_tuple && shape.dtype == DType::token) return c.append(Opcode::after_all, shape, {});
  if (!shape.is_tuple) {
    Attributes attrs;
    attrs.literal = Array(Shape(shape.dtype, shape.dims));
    return c.append(Opcode::constant, shape, {}, std::move(attrs));
  }
  std::vector<Node*> elements;
  for (const Shape& element : shape.elements) elements.push_back(zeros(c, element));
  return c.append(Opcode::tuple, shape, std::move(elements));
}

// What a start declares, of a result that is there at once: the operands beside it, and zeros for
// whatever else.
Node* started(Computation& c, const AsyncPair& pair, const Node& start) {
  const Shape& shape = start.shape;
  const auto result = static_cast<size_t>(pair.result), given = 1 - result;
  std::vector<Node*> operands = bound_operands(start, &start, start);
  if (pair.result < 0) {
    Node* const all = append_joined(c, pair, start, shape, std::move(operands), start.name());
    copy_annotations(start, *all);
    return all;
  }
  std::vector<Node*> elements(2);
  const Shape& declared = shape.elements.at(given);
  const bool bare = !declared.is_tuple || (operands.size() == 1 && operands[0]->shape == declared);
  elements[given] = bare ? operands.at(0) : c.append(Opcode::tuple, declared, operands);
  elements[result] =
      append_joined(c, pair, start, shape.elements.at(result), std::move(operands), start.name());
  elements[result]->metadata = start.metadata;
  for (size_t i = 2; i < shape.elements.size(); ++i)
    elements.push_back(zeros(c, shape.elements[i]));
  Node* const all = c.append(Opcode::tuple, shape, std::move(elements));
  copy_annotations(start, *all);
  return all;
}

// For a start, update or end whose other side is in another computation, or behind a tuple: the
// same value, made at the start. nullptr for other nodes.
Node* at_once(Computation& c, const Node& node) {
  if (const AsyncPair* pair = pair_of(&AsyncPair::start, node)) return started(c, *pair, node);
  if (node.is(Opcode::async_update)) return node.operand(0);
  const AsyncPair* const pair = pair_of(&AsyncPair::done, node);
  if (pair == nullptr) return nullptr;
  if (pair->result < 0) return node.operand(0);
  Attributes attrs;
  attrs.index = pair->result;
  Node* const result =
      c.append(Opcode::get_tuple_element, node.shape, {node.operand(0)}, std::move(attrs));
  copy_annotations(node, *result);
  return result;
}

std::vector<Node*> nodes_of(const Computation& computation) {
  std::vector<Node*> nodes;
  for (const auto& node : computation.nodes()) nodes.push_back(node.get());
  return nodes;
}

// Compilers write the user's line at one of an operation's nodes: the start, the end, or what is
// done between them.
void take_line(Node& to, const Metadata& from) {
  if (!to.metadata.op_name.empty() || !to.metadata.source_file.empty()) return;
  const Site text = to.metadata.text;
  to.metadata = from;
  to.metadata.text = text;
}

void take_lines(Node& joined, const Node& start) {
  take_line(joined, start.metadata);
  for (const Computation* called : start.called)
    for (const auto& node : called->nodes())
      if (node->op().has(kCollective)) take_line(*node, joined.metadata);
}

bool join_pairs(Computation& c) {
  bool changed = false;
  for (Node* done : nodes_of(c)) {
    if (pair_of(&AsyncPair::done, *done) == nullptr) continue;
    const Node& start = *start_of(*done);
    const AsyncPair* const pair = pair_of(&AsyncPair::start, start);
    if (pair == nullptr) continue;
    Node* const joined = append_joined(
        c, *pair, start, done->shape, bound_operands(start, done->operand(0), *done), done->name());
    copy_annotations(*done, *joined);
    take_lines(*joined, start);
    c.replace_uses(done, joined);
    changed = true;
  }
  if (changed) c.remove_dead();  // starts whose ends are gone
  return changed;
}

bool join_in(Computation& c) {
  bool changed = join_pairs(c);
  for (Node* node : nodes_of(c)) {
    Node* const joined = at_once(c, *node);
    if (joined == nullptr) continue;
    c.replace_uses(node, joined);
    changed = true;
  }
  return changed;
}

}  // namespace

bool join_async(Module& module) {
  const bool changed = rewrite_each(module, join_in);
  if (changed) module.remove_unreachable();
  return changed;
}

}  // namespace gspmd
