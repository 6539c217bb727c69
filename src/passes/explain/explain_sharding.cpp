#include "gspmd/passes/explain/explain_sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "ops/common/completion.h"

namespace gspmd {
namespace {

const Node* find_in(const Computation& computation, const std::string& name) {
  for (const auto& node : computation.nodes())
    if (node->name() == name) return node.get();
  return nullptr;
}

// Neighbours first; a value of another computation (loops, calls) is found in the module.
const Node* neighbour(const Node& node, const std::string& name) {
  if (name.empty()) return nullptr;
  for (const Node* other : node.operands())
    if (other->name() == name) return other;
  for (const Node* other : node.users())
    if (other->name() == name) return other;
  if (const Node* other = find_in(node.parent(), name)) return other;
  for (const auto& computation : node.parent().module().computations())
    if (const Node* other = find_in(*computation, name)) return other;
  return nullptr;
}

const Origin* same_digit(const Node& node, const Origin& wanted) {
  const Origin* best = nullptr;
  for (const Origin& origin : node.origins) {
    if (origin.annotation != wanted.annotation) continue;
    if (origin.digit != wanted.digit && disjoint({origin.digit}, {wanted.digit})) continue;
    if (!best || (origin.digit == wanted.digit && best->digit != wanted.digit)) best = &origin;
  }
  return best;
}

std::string where_is(const Node& node) {
  const std::string source = source_line(node.metadata);
  if (source.empty() || node.metadata.op_name.empty())
    return fmt::format("%{}{}{}", node.name(), source.empty() ? "" : " at ", source);
  return fmt::format("{} at {}", *node.metadata.op_name, source);
}

const Sharding* leaf_of(const Node& node, int64_t leaf) { return leaf_sharding(node, leaf); }

// "model", or "(4,2)" where no mesh axis is this digit.
std::string axis_text(const Sharding* sharding, const Digit& digit) {
  if (sharding && sharding->mesh()) {
    const Mesh& mesh = *sharding->mesh();
    for (int64_t a = 0; a < mesh.rank(); ++a)
      if (mesh.digit(a) == digit) return mesh.axes()[static_cast<size_t>(a)].name;
  }
  return fmt::format("({},{})", digit.size, digit.stride);
}

bool has_own_origin(const Node& node) {
  return std::any_of(node.origins.begin(), node.origins.end(),
                     [](const Origin& o) { return o.via.empty(); });
}

// What a reader would like its operand to be.
std::optional<Sharding> wish(const Node& reader, int64_t operand) {
  if (!propagates(reader.sharding)) return std::nullopt;
  constexpr int kEveryLevel = 3;
  const auto said = suggestions_of_reader(reader, operand, {kEveryLevel, true});
  if (said.empty() || said[0].operand >= 0) return std::nullopt;
  return said[0].sharding;
}

const Node* annotation_of(const Node& node, const Digit& digit) {
  for (const Origin& origin : node.origins)
    if (origin.digit == digit || !disjoint({origin.digit}, {digit}))
      return origin.annotation == node.name() ? &node : neighbour(node, origin.annotation);
  return nullptr;
}

// Of a value that is split where the reader wants it otherwise, the first such dim.
std::optional<LostAnnotation> conflict(const Node& value, const Node& reader,
                                       const Sharding& wanted) {
  const Sharding* kept = tiled_leaf(value);
  if (value.shape.is_tuple || !kept || !wanted.is_tiled() || !wanted.order()) return std::nullopt;
  for (int64_t d = 0; d < value.rank(); ++d) {
    if (wanted.dim(d).empty() || wanted.dim(d) == kept->dim(d)) continue;
    if (is_prefix(wanted.dim(d), kept->dim(d))) continue;
    LostAnnotation lost;
    lost.annotation = annotation_of(reader, wanted.dim(d).front());
    lost.at = &value;
    lost.reader = &reader;
    lost.dim = d;
    if (!kept->dim(d).empty()) lost.winner = annotation_of(value, kept->dim(d).front());
    for (int64_t e = 0; e < value.rank() && !lost.winner; ++e)
      for (const Digit& digit : kept->dim(e))
        if (!disjoint({digit}, wanted.dim(d))) lost.winner = annotation_of(value, digit);
    if (!lost.winner && has_own_origin(value)) lost.winner = &value;
    if (lost.annotation && lost.annotation != lost.winner) return lost;
  }
  return std::nullopt;
}

}  // namespace

std::vector<const Node*> origin_path(const Node& node, const Origin& origin, size_t most) {
  std::vector<const Node*> path;
  const Node* at = &node;
  const Origin* step = &origin;
  while (step && !step->via.empty() && path.size() < most) {
    const Node* next = neighbour(*at, step->via);
    if (!next || next == &node) break;
    path.push_back(next);
    if (next->name() == origin.annotation) break;
    const Origin* before = step;
    step = same_digit(*next, *before);
    // A reader that handed on what another of its operands said.
    for (const Node* speaker : next->operands()) {
      if (step || speaker == at) continue;
      step = same_digit(*speaker, *before);
      if (step) path.push_back(next = speaker);
    }
    if (next->name() == origin.annotation) break;
    at = next;
  }
  return path;
}

std::string describe_origin(const Node& node, const Origin& origin) {
  std::string text = fmt::format("dim {} over {}: ", origin.dim,
                                 axis_text(leaf_of(node, origin.leaf), origin.digit));
  if (node.shape.is_tuple) text = fmt::format("leaf {}, ", origin.leaf) + text;
  if (origin.via.empty()) return text + "given by " + where_is(node);
  constexpr size_t kMost = 8;
  const std::vector<const Node*> path = origin_path(node, origin, kMost + 1);
  const Node* annotation = neighbour(node, origin.annotation);
  text += "from " + (annotation ? where_is(*annotation) : "%" + origin.annotation);
  std::vector<std::string> through;
  for (size_t i = path.size(); i-- > 0;)
    if (path[i]->name() != origin.annotation)
      through.push_back(fmt::format("{} %{}", opcode_name(path[i]->opcode()), path[i]->name()));
  if (path.size() > kMost) through.insert(through.begin(), "...");
  if (!through.empty()) text += fmt::format(", through {}", fmt::join(through, ", "));
  return text;
}

std::string describe_sharding(const Node& node) {
  std::string text;
  for (const Origin& origin : node.origins) text += describe_origin(node, origin) + "\n";
  return text;
}

ShardingLint lint_shardings(const Module& completed) {
  ShardingLint lint;
  std::set<std::string> used;
  std::set<std::pair<int64_t, int64_t>> seen;
  for (const auto& computation : completed.computations())
    for (const auto& node : computation->nodes()) {
      for (const Origin& origin : node->origins)
        if (!origin.via.empty()) used.insert(origin.annotation);
      for (size_t i = 0; i < node->operands().size(); ++i) {
        const Node& value = *node->operands()[i];
        const auto wanted = wish(*node, static_cast<int64_t>(i));
        if (!wanted || wanted->is_tuple()) continue;
        const auto lost = conflict(value, *node, *wanted);
        if (!lost) continue;
        const int64_t winner = lost->winner ? lost->winner->id() : -1;
        if (seen.insert({lost->annotation->id(), winner}).second) lint.lost.push_back(*lost);
      }
    }
  for (const auto& computation : completed.computations())
    for (const auto& node : computation->nodes())
      if (has_own_origin(*node) && !used.contains(node->name())) lint.unused.push_back(node.get());
  return lint;
}

std::vector<const Node*> lone_group_members(const Module& given) {
  std::map<int64_t, std::vector<const Node*>> groups;
  for (const auto& computation : given.computations())
    for (const auto& node : computation->nodes())
      if (node->sharding && !node->sharding->is_tuple() && node->sharding->shard_group() != 0)
        groups[node->sharding->shard_group()].push_back(node.get());
  std::vector<const Node*> alone;
  for (const auto& [group, members] : groups)
    if (members.size() == 1) alone.push_back(members[0]);
  return alone;
}

std::string to_string(const ShardingLint& lint) {
  std::string text;
  for (const LostAnnotation& lost : lint.lost) {
    const std::string winner =
        lost.winner ? "to " + where_is(*lost.winner) : std::string("to no other annotation");
    // An annotation is found by its line, not by the name of its instruction.
    const std::string at = has_own_origin(*lost.at) ? where_is(*lost.at) : "%" + lost.at->name();
    text += fmt::format("{} lost {} on dim {} of {}, which {} %{} wants otherwise\n",
                        where_is(*lost.annotation), winner, lost.dim, at,
                        opcode_name(lost.reader->opcode()), lost.reader->name());
  }
  for (const Node* node : lint.unused)
    text += fmt::format("{} is used by no other value\n", where_is(*node));
  for (const Node* node : lint.redundant)
    text += fmt::format("{} changes nothing: the other annotations say as much\n", where_is(*node));
  for (const Node* node : lint.alone)
    text += fmt::format("{} says nothing: only one of its two results is used\n", where_is(*node));
  return text;
}

}  // namespace gspmd
