#include "passes/differentiate/least_stored.h"

#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <set>

namespace gspmd {
namespace {

// A random graph of few values; which of them are there, may be computed, and are wanted.
struct Graph {
  Module module;
  Computation* computation = module.add_computation("main");
  std::vector<Node*> nodes;
  std::set<const Node*> there, computed;
  StoredProblem problem;

  explicit Graph(uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const size_t count = 2 + below(8);
    for (size_t i = 0; i < count; ++i) {
      std::vector<Node*> operands;
      for (size_t k = 0; i > 0 && k < below(3); ++k) operands.push_back(nodes[below(i)]);
      const Shape shape(DType::f32, {static_cast<int64_t>(1 + below(9))});
      nodes.push_back(computation->append(Opcode::add, shape, operands));
      if (below(6) == 0) there.insert(nodes[i]);
      if (!operands.empty() && below(4) != 0) computed.insert(nodes[i]);
    }
    for (Node* node : nodes)
      if (below(3) == 0 || node == nodes.back()) problem.wanted.push_back(node);
    problem.is_there = [this](const Node& node) { return there.count(&node) != 0; };
    problem.is_computed = [this](const Node& node) { return computed.count(&node) != 0; };
  }

  bool is_had(const Node* node, const std::set<const Node*>& stored) const {
    if (there.count(node) != 0 || stored.count(node) != 0) return true;
    if (computed.count(node) == 0) return false;
    for (const Node* operand : node->operands())
      if (!is_had(operand, stored)) return false;
    return true;
  }
  bool suffices(const std::set<const Node*>& stored) const {
    for (const Node* node : problem.wanted)
      if (!is_had(node, stored)) return false;
    return true;
  }
  static int64_t bytes(const std::set<const Node*>& stored) {
    int64_t total = 0;
    for (const Node* node : stored) total += node->shape.bytes();
    return total;
  }
};

}  // namespace

TEST_CASE("what is stored suffices, and no other choice of values is smaller", "[passes]") {
  int cheaper_than_wanted = 0;
  for (uint32_t seed = 1; seed <= 600; ++seed) {
    const Graph graph(seed);
    int64_t best = INT64_MAX;
    for (uint32_t choice = 0; choice < (1u << graph.nodes.size()); ++choice) {
      std::set<const Node*> stored;
      for (size_t i = 0; i < graph.nodes.size(); ++i)
        if ((choice >> i & 1u) != 0) stored.insert(graph.nodes[i]);
      if (Graph::bytes(stored) < best && graph.suffices(stored)) best = Graph::bytes(stored);
    }
    const std::vector<Node*> found = least_stored(graph.problem);
    const std::set<const Node*> stored(found.begin(), found.end());
    INFO("seed " << seed);
    REQUIRE(graph.suffices(stored));
    REQUIRE(Graph::bytes(stored) == best);
    cheaper_than_wanted +=
        best < Graph::bytes({graph.problem.wanted.begin(), graph.problem.wanted.end()});
  }
  CHECK(cheaper_than_wanted > 100);
}

// What lies between may be an annotation, which moves its value again where it is made again.
TEST_CASE("of values of equal bytes in a chain the last is stored", "[passes]") {
  Module module;
  Computation* const computation = module.add_computation("main");
  std::vector<Node*> chain;
  for (int i = 0; i < 4; ++i)
    chain.push_back(computation->append(Opcode::negate, Shape(DType::f32, {8}),
                                        i == 0 ? std::vector<Node*>() : std::vector{chain.back()}));
  const StoredProblem problem{{chain[3]},
                              [](const Node&) { return false; },
                              [&](const Node& node) { return &node != chain[0]; }};
  CHECK(least_stored(problem) == std::vector{chain[3]});
}

}  // namespace gspmd
