#include "passes/graph/trip_count.h"

#include <charconv>
#include <limits>

namespace gspmd {
namespace {

// {"known_trip_count":{"n":"24"}}, its quotes escaped or not.
std::optional<int64_t> known_trip_count(const Node& loop) {
  const auto config = loop.attrs.other.find("backend_config");
  if (config == loop.attrs.other.end()) return std::nullopt;
  const std::string& text = config->second;
  const size_t key = text.find("known_trip_count");
  if (key == std::string::npos) return std::nullopt;
  const size_t digit = text.find_first_of("0123456789}", key);
  if (digit == std::string::npos) return std::nullopt;
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data() + digit, text.data() + text.size(), count);
  if (error != std::errc{}) return std::nullopt;
  return count;
}

const Node* through_copies(const Node* node) {
  while (node->is(Opcode::copy)) node = node->operand(0);
  return node;
}

std::optional<int64_t> integer_constant(const Node* node) {
  node = through_copies(node);
  if (!node->is(Opcode::constant) || !is_integer(node->shape.dtype) || node->rank() != 0 ||
      node->attrs.literal.empty())
    return std::nullopt;
  return static_cast<int64_t>(node->attrs.literal.at(0));
}

// i where the node is element i of its computation's only parameter.
std::optional<int64_t> state_index(const Node* node) {
  node = through_copies(node);
  if (!node->is(Opcode::get_tuple_element) ||
      !through_copies(node->operand(0))->is(Opcode::parameter))
    return std::nullopt;
  return node->attrs.index;
}

// What `state` + step leaves in element i; nullopt when it is anything else.
std::optional<int64_t> step_of(const Computation& body, int64_t i) {
  const Node* const root = body.root();
  if (!root->is(Opcode::tuple) || i >= static_cast<int64_t>(root->operands().size()))
    return std::nullopt;
  const Node* const next = through_copies(root->operand(i));
  if (!next->is(Opcode::add)) return std::nullopt;
  for (int64_t side = 0; side < 2; ++side)
    if (state_index(next->operand(side)) == i) return integer_constant(next->operand(1 - side));
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> trip_count(const Node& loop) {
  if (const std::optional<int64_t> known = known_trip_count(loop)) return known;
  const Node* const test = loop.called.at(0)->root();
  if (!test->is(Opcode::compare)) return std::nullopt;
  const Direction direction = test->attrs.direction;
  if (direction != Direction::lt && direction != Direction::le) return std::nullopt;
  const std::optional<int64_t> index = state_index(test->operand(0));
  const std::optional<int64_t> limit = integer_constant(test->operand(1));
  const Node* const initial = loop.operand(0);
  if (!index || !limit || !initial->is(Opcode::tuple)) return std::nullopt;
  const std::optional<int64_t> start = integer_constant(initial->operand(*index));
  const std::optional<int64_t> step = step_of(*loop.called.at(1), *index);
  if (!start || !step || *step < 1) return std::nullopt;
  const double end = static_cast<double>(*limit) + (direction == Direction::le ? 1 : 0);
  const double distance = end - static_cast<double>(*start);
  if (distance <= 0) return 0;
  if (distance > 1e15) return std::nullopt;
  return ceil_div(static_cast<int64_t>(distance), *step);
}

std::unordered_map<const Computation*, int64_t> run_counts(const Module& module) {
  std::unordered_map<const Computation*, int64_t> counts;
  counts[module.entry()] = 1;
  const auto& all = module.computations();  // callees first
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    const auto found = counts.find(it->get());
    if (found == counts.end()) continue;
    const int64_t runs = found->second;
    for (const std::unique_ptr<Node>& node : (*it)->nodes()) {
      const bool loop = node->is(Opcode::while_);
      const int64_t times = loop ? trip_count(*node).value_or(1) : 1;
      for (const Computation* called : node->called)
        counts[called] = saturating_add(counts[called], saturating_multiply(runs, times));
    }
  }
  return counts;
}

}  // namespace gspmd
