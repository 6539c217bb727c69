// Where the digits of a sharding came from: recorded when they are taken.

#include "passes/complete/origins.h"

#include <algorithm>

#include "passes/complete/propagation.h"

namespace gspmd {
namespace {

bool is_reader(const Node& reader, const Node& node) {
  const auto& operands = reader.operands();
  return std::find(operands.begin(), operands.end(), &node) != operands.end();
}

// Whether `whole` reads all that `part` does.
bool reads_within(const Digit& part, const Digit& whole) {
  if (part == whole) return true;
  const auto rest = difference({part}, {whole});
  return rest && rest->empty();
}

// What of `digit` is in none of `found`.
Digits left_of(const Digit& digit, const Digits& found) {
  if (found.empty()) return {digit};
  if (found.size() == 1 && found[0] == digit) return {};
  return difference({digit}, found).value_or(Digits{});
}

// Which leaf of its neighbour `via` a leaf of `node` is, for neighbours that hold the same values;
// -1: not known.
int64_t leaf_in(const Node& via, const Node& node, int64_t leaf) {
  if (!via.shape.is_tuple) return 0;
  if (node.is(Opcode::get_tuple_element) && node.operand(0) == &via)
    return first_leaf(via.shape, node.attrs.index) + leaf;
  if (via.is(Opcode::tuple) && is_reader(via, node)) {
    const auto at = std::find(via.operands().begin(), via.operands().end(), &node);
    return first_leaf(via.shape, at - via.operands().begin()) + leaf;
  }
  return node.shape.is_tuple && leaf_count(node.shape) == leaf_count(via.shape) ? leaf : -1;
}

// What `via`, or through it another operand of it, said of this dim of `node`.
std::vector<OriginPart> parts_in_speech(const Node& node, const Node& via, int64_t dim,
                                        const Digit& digit) {
  constexpr CompletionMode kAll{3, true};
  const DeviceOrder order = node.sharding->order();
  if (is_reader(via, node)) {
    const auto at = std::find(via.operands().begin(), via.operands().end(), &node);
    for (const OperandSuggestion& said :
         suggestions_of_reader(via, at - via.operands().begin(), kAll)) {
      const Node& speaker = said.operand < 0 ? via : *via.operand(said.operand);
      const int64_t leaf = said.operand < 0 && via.shape.is_tuple ? said.leaf : 0;
      auto parts = parts_behind(speaker, leaf, said.sharding, dim, digit, order);
      if (!parts.empty()) return parts;
    }
    return {};
  }
  if (!is_reader(node, via)) return {};
  for (const ShardingProposal& said : proposals_of_operands(node, kAll))
    if (said.operand >= 0 && node.operand(said.operand) == &via && !said.sharding.is_tuple()) {
      auto parts = parts_behind(via, 0, said.sharding, dim, digit, order);
      if (!parts.empty()) return parts;
    }
  return {};
}

std::vector<OriginPart> parts_through(const Node& node, const Node& via, int64_t leaf, int64_t dim,
                                      const Digit& digit) {
  std::vector<OriginPart> parts;
  if (!node.shape.is_tuple && is_reader(via, node) && via.op().completion.operands_confer)
    parts = parts_in_speech(node, via, dim, digit);
  const Sharding* of_via = via.shape.is_tuple ? nullptr : leaf_sharding(via, 0);
  const Sharding* own = leaf_sharding(node, leaf);
  const bool same_order = !of_via || !own || of_via->order() == own->order();
  if (parts.empty() && !same_order && !node.shape.is_tuple)
    parts = parts_in_speech(node, via, dim, digit);
  return parts.empty() ? origin_parts(via, leaf_in(via, node, leaf), digit) : parts;
}

void append_through(const Node& node, const Node& via, int64_t leaf, int64_t dim,
                    const Digit& digit, std::vector<Origin>& out) {
  Digits found;
  if (&via != &node)
    for (const OriginPart& part : parts_through(node, via, leaf, dim, digit)) {
      out.push_back({leaf, dim, part.digit, part.origin->annotation, via.name()});
      found.push_back(part.digit);
    }
  for (const Digit& rest : left_of(digit, found))
    out.push_back({leaf, dim, rest, via.name(), &via == &node ? std::string() : via.name()});
}

// `known` is sorted by leaf. What a dim had before keeps its origin, also as a part of a longer
// digit.
void append_leaf(Node& node, int64_t leaf, const Sharding& sharding,
                 const std::vector<Origin>& known, const Node& via, std::vector<Origin>& out) {
  const auto first = std::lower_bound(known.begin(), known.end(), leaf,
                                      [](const Origin& o, int64_t l) { return o.leaf < l; });
  for (int64_t d = 0; d < sharding.rank(); ++d)
    for (const Digit& digit : sharding.dim(d)) {
      Digits kept;
      for (auto at = first; at != known.end() && at->leaf == leaf; ++at) {
        if (at->dim != d || !reads_within(at->digit, digit)) continue;
        out.push_back(*at);
        kept.push_back(at->digit);
      }
      for (const Digit& rest : left_of(digit, kept)) append_through(node, via, leaf, d, rest, out);
    }
}

// For each leaf of a tuple of values: the value that it is; the tuple where that has no layout, so
// that the tuple was given its own. Empty: all leaves have theirs from `via`.
std::vector<const Node*> suppliers(const Node& node, const Node& via) {
  std::vector<const Node*> result;
  if (!node.is(Opcode::tuple) || &via != &node) return result;
  for (const Node* operand : node.operands())
    result.insert(result.end(), static_cast<size_t>(leaf_count(operand->shape)),
                  operand->origins.empty() ? &via : operand);
  return result;
}

}  // namespace

std::vector<OriginPart> origin_parts(const Node& node, int64_t leaf, const Digit& digit) {
  const auto begin = std::lower_bound(node.origins.begin(), node.origins.end(), leaf,
                                      [](const Origin& o, int64_t l) { return o.leaf < l; });
  std::vector<OriginPart> parts;
  Digits rest{digit};
  for (auto at = begin; at != node.origins.end() && (leaf < 0 || at->leaf == leaf); ++at) {
    if (rest.size() == 1 && rest[0] == at->digit) {
      parts.push_back({at->digit, &*at});
      break;
    }
    const auto common = intersection(rest, {at->digit});
    if (!common || common->empty()) continue;
    for (const Digit& part : *common) parts.push_back({part, &*at});
    rest = difference(rest, *common).value_or(Digits{});
    if (rest.empty()) break;
  }
  return parts;
}

std::vector<OriginPart> parts_behind(const Node& speaker, int64_t leaf, const Sharding& said,
                                     int64_t dim, const Digit& digit, DeviceOrder order) {
  std::vector<OriginPart> parts;
  for (const Digit& spoken : said.dim(dim)) {
    // Digits over another order of the devices compare by the dim that they are in.
    if (said.order() != order) {
      for (const OriginPart& part : origin_parts(speaker, leaf, spoken))
        return {{digit, part.origin}};
      continue;
    }
    const auto common = intersection({spoken}, {digit});
    for (const Digit& both : common.value_or(Digits{}))
      for (const OriginPart& part : origin_parts(speaker, leaf, both)) parts.push_back(part);
  }
  return parts;
}

void record_origins(Node& node, const Node& via, const std::vector<const Node*>& by_leaf) {
  if (!node.sharding) return;
  const bool tuple = node.sharding->is_tuple();
  const size_t count = tuple ? node.sharding->elements().size() : 1;
  const std::vector<const Node*> of_values = suppliers(node, via);
  std::vector<Origin> origins;
  for (size_t i = 0; i < count; ++i) {
    const auto leaf = static_cast<int64_t>(i);
    const Sharding& s = tuple ? node.sharding->elements()[i] : *node.sharding;
    const Node* known = i < by_leaf.size() ? by_leaf[i] : nullptr;
    if (known == nullptr) known = i < of_values.size() ? of_values[i] : &via;
    append_leaf(node, leaf, s, node.origins, *known, origins);
  }
  node.origins = std::move(origins);
}

}  // namespace gspmd
