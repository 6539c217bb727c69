#include "passes/differentiate/least_stored.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>

namespace gspmd {
namespace {

constexpr int64_t kEndless = std::numeric_limits<int64_t>::max() / 4;

// Flows of whole numbers along edges with capacities; Dinic's algorithm.
class FlowNetwork {
 public:
  int add_vertex() {
    first_.push_back(-1);
    return static_cast<int>(first_.size()) - 1;
  }
  void add_edge(int from, int to, int64_t capacity) {
    half_edge(from, to, capacity);
    half_edge(to, from, 0);
  }

  void saturate(int source, int sink) {
    while (levels_from(source), level_[static_cast<size_t>(sink)] >= 0) {
      next_ = first_;
      while (push(source, sink)) {
      }
    }
  }
  // After saturate(): the vertices from which more could still flow to the sink.
  std::vector<bool> above(int sink) const {
    std::vector<bool> found(first_.size(), false);
    found[static_cast<size_t>(sink)] = true;
    std::queue<int> open({sink});
    while (!open.empty()) {
      const int at = open.front();
      open.pop();
      for (int e = first_[static_cast<size_t>(at)]; e >= 0; e = edge(e).next) {
        const auto from = static_cast<size_t>(edge(e).to);
        if (edge(e ^ 1).rest <= 0 || found[from]) continue;
        found[from] = true;
        open.push(edge(e).to);
      }
    }
    return found;
  }

 private:
  struct Edge {
    int to = 0, next = -1;
    int64_t rest = 0;  // what may still flow
  };

  void half_edge(int from, int to, int64_t capacity) {
    edges_.push_back({to, first_[static_cast<size_t>(from)], capacity});
    first_[static_cast<size_t>(from)] = static_cast<int>(edges_.size()) - 1;
  }

  void levels_from(int source) {
    level_.assign(first_.size(), -1);
    level_[static_cast<size_t>(source)] = 0;
    std::queue<int> open({source});
    while (!open.empty()) {
      const int at = open.front();
      open.pop();
      for (int e = first_[static_cast<size_t>(at)]; e >= 0; e = edge(e).next) {
        int& level = level_[static_cast<size_t>(edge(e).to)];
        if (edge(e).rest <= 0 || level >= 0) continue;
        level = level_[static_cast<size_t>(at)] + 1;
        open.push(edge(e).to);
      }
    }
  }

  // One path of rising levels, found without recursion; false: there is none.
  bool push(int source, int sink) {
    std::vector<int> path;  // edges
    int at = source;
    while (at != sink) {
      int& e = next_[static_cast<size_t>(at)];
      while (e >= 0 && !(edge(e).rest > 0 && level_[static_cast<size_t>(edge(e).to)] ==
                                                 level_[static_cast<size_t>(at)] + 1))
        e = edge(e).next;
      if (e >= 0) {
        path.push_back(e);
        at = edge(e).to;
      } else if (path.empty()) {
        return false;
      } else {  // a dead end: its edge is used up for this phase
        at = edge(path.back() ^ 1).to;
        next_[static_cast<size_t>(at)] = edge(next_[static_cast<size_t>(at)]).next;
        path.pop_back();
      }
    }
    int64_t least = kEndless;
    for (const int e : path) least = std::min(least, edge(e).rest);
    for (const int e : path) {
      edge(e).rest -= least;
      edge(e ^ 1).rest += least;
    }
    return true;
  }

  Edge& edge(int e) { return edges_[static_cast<size_t>(e)]; }
  const Edge& edge(int e) const { return edges_[static_cast<size_t>(e)]; }

  std::vector<int> first_, next_, level_;  // by vertex
  std::vector<Edge> edges_;                // each behind it its reverse
};

// A value is a pair of vertices with an edge of its bytes between them: cutting it is storing it.
class Cut {
 public:
  explicit Cut(const StoredProblem& problem) : problem_(problem) {
    source_ = network_.add_vertex();
    sink_ = network_.add_vertex();
    for (Node* node : problem.wanted) network_.add_edge(visit(node) + 1, sink_, kEndless);
    while (!open_.empty()) {
      Node* const node = open_.back();
      open_.pop_back();
      reach_up(node);
    }
  }

  std::vector<Node*> run() {
    network_.saturate(source_, sink_);
    // Of cuts of equal weight the one next to what is wanted, below which least is computed: an
    // annotation that is made again may move its value again.
    const std::vector<bool> below = network_.above(sink_);
    std::vector<Node*> stored;
    for (const auto& [node, vertex] : vertices_) {
      const auto in = static_cast<size_t>(vertex);
      if (!below[in] && below[in + 1]) stored.push_back(node);
    }
    std::sort(stored.begin(), stored.end(),
              [](const Node* a, const Node* b) { return a->id() < b->id(); });
    return stored;
  }

 private:
  // The first vertex of a value; the second one follows it.
  int visit(Node* node) {
    if (const auto found = vertices_.find(node); found != vertices_.end()) return found->second;
    const int in = network_.add_vertex(), out = network_.add_vertex();
    // Of two ways of equal bytes the one of fewer values is taken.
    network_.add_edge(in, out, node->shape.is_tuple ? kEndless : 8 * node->shape.bytes() + 1);
    vertices_.emplace(node, in);
    open_.push_back(node);
    return in;
  }

  void reach_up(Node* node) {
    if (problem_.is_there(*node)) return;
    const int in = vertices_.at(node);
    if (!problem_.is_computed(*node)) return network_.add_edge(source_, in, kEndless);
    for (Node* operand : node->operands()) network_.add_edge(visit(operand) + 1, in, kEndless);
  }

  const StoredProblem& problem_;
  FlowNetwork network_;
  int source_ = 0, sink_ = 0;
  std::unordered_map<Node*, int> vertices_;
  std::vector<Node*> open_;
};

}  // namespace

std::vector<Node*> least_stored(const StoredProblem& problem) { return Cut(problem).run(); }

}  // namespace gspmd
