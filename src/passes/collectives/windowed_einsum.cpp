#include "gspmd/passes/collectives/windowed_einsum.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "gspmd/ops/counted_loop.h"
#include "ops/common/in_dim.h"
#include "ops/emission/index.h"
#include "passes/collectives/ring.h"

namespace gspmd {
namespace {

enum class DimKind : uint8_t { free, batch, contracting };

// A product one of whose operands is cut into slices along one dim, a slice per device of the ring.
struct WindowCut {
  Node* dot = nullptr;
  int64_t operand = 0;  // the one that is cut
  int64_t dim = 0;      // its dim
  DimKind kind = DimKind::free;
  int64_t other_dim = -1;   // the same loop of the other operand; -1 for free
  int64_t result_dim = -1;  // -1 for contracting
};

int64_t find(const std::vector<int64_t>& dims, int64_t factor) {
  const auto at = std::find(dims.begin(), dims.end(), factor);
  return at == dims.end() ? -1 : at - dims.begin();
}

// A product all of whose dims are loops that operands share with the result or are summed, so that
// it may be made slice by slice of any of them.
bool is_einsum(const Node& node) {
  if (!node.op().has(kLinearInEach) || node.op().has(kElementwise) || node.operands().size() != 2)
    return false;
  const FactorRule rule = node.op().factors(node);
  return std::all_of(rule.factors.begin(), rule.factors.end(), [](const Factor& f) {
    return f.kind == FactorKind::pass || f.kind == FactorKind::reduction;
  });
}

// Which loop of the product `dim` of `operand` is.
WindowCut cut_along(Node& dot, int64_t operand, int64_t dim) {
  const FactorRule rule = dot.op().factors(dot);
  const int64_t factor = rule.operands[static_cast<size_t>(operand)][static_cast<size_t>(dim)];
  WindowCut cut{&dot, operand, dim};
  cut.other_dim = find(rule.operands[static_cast<size_t>(1 - operand)], factor);
  cut.result_dim = find(rule.results[0], factor);
  if (cut.other_dim >= 0) cut.kind = cut.result_dim >= 0 ? DimKind::batch : DimKind::contracting;
  return cut;
}

// The loops of result dim `dim`: the cut of the operand that has it (the left one for batch dims).
WindowCut cut_of_result(Node& dot, int64_t dim) {
  for (int64_t operand = 0; operand < 2; ++operand)
    for (int64_t d = 0; d < dot.operand(operand)->rank(); ++d)
      if (const WindowCut cut = cut_along(dot, operand, d); cut.result_dim == dim) return cut;
  internal_error("{}: no operand has dim {} of the result", dot.name(), dim);
}

// Sums of 16-bit products are kept in f32, as inside one product.
DType sum_dtype(const Node& dot) {
  const DType dtype = dot.shape.dtype;
  return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype;
}

// With zeros behind the last element of `dim`, so that slices of `size` elements come out whole.
Node* pad_to(Node* x, int64_t dim, int64_t size) {
  return dim < 0 ? x : pad(x, dim, 0, size - x->dim(dim));
}

// Zeros where the slice of the device at `place` ends behind element `size` of the whole dim.
Node* zero_behind(Node* slice, int64_t dim, IndexNode place, int64_t size) {
  Computation& c = slice->parent();
  const IndexNode position = positions(slice->dims(), dim, place * slice->dim(dim));
  return hlo::select(compare(position, IndexNode(c, size), Direction::lt), slice,
                     hlo::splat(c, slice->shape, 0));
}

Node* product(const WindowCut& cut, Node* mine, Node* other, DType dtype) {
  Node* const lhs = cut.operand == 0 ? mine : other;
  Node* const rhs = cut.operand == 0 ? other : mine;
  Dims dims = cut.dot->dims();
  if (cut.result_dim >= 0) dims.at(static_cast<size_t>(cut.result_dim)) = mine->dim(cut.dim);
  return emit(mine->parent(), cut.dot->opcode(), {lhs, rhs}, cut.dot->attrs,
              Shape(dtype, std::move(dims)));
}

// `moves` moves in a loop of `unroll` each, and those that are left behind it. The first is number
// `first`.
template <class Move>
std::vector<Node*> move_all(Computation& c, std::vector<Node*> state, int64_t moves, int64_t unroll,
                            int64_t first, const Move& move) {
  const int64_t trips = moves / unroll;
  state = state_after_loop(c, "windowed_einsum", trips, std::move(state),
                           [&](Computation&, std::vector<Node*> values, Node* iteration) {
                             for (int64_t k = 0; k < unroll; ++k)
                               values = move(values, IndexNode(iteration) * unroll + (first + k));
                             return values;
                           });
  for (int64_t done = trips * unroll; done < moves; ++done)
    state = move(state, IndexNode(c, first + done));
  return state;
}

// dot(all-gather(x), y): slices of x go round the ring; each device multiplies the one it holds.
// Where only the first elements of what is gathered are read, the last slices have a tail.
class GatherLoop {
 public:
  GatherLoop(const WindowCut& cut, Ring ring, const WindowedEinsumOptions& options)
      : cut_(cut),
        ring_(std::move(ring)),
        both_ways_(options.bidirectional && ring_.size() % 2 == 0),
        unroll_(options.unroll ? 2 : 1) {}

  Node* emit_instead(Node* slice) {
    Computation& c = slice->parent();
    const bool sums = cut_.kind == DimKind::contracting;
    const int64_t read = cut_.dot->operand(cut_.operand)->dim(cut_.dim);
    const int64_t size = slice->dim(cut_.dim) * ring_.size();
    Node* const other = pad_to(cut_.dot->operand(1 - cut_.operand), cut_.other_dim, size);
    if (sums && size > read) slice = zero_behind(slice, cut_.dim, ring_.place(c), read);
    dtype_ = sums ? sum_dtype(*cut_.dot) : cut_.dot->shape.dtype;
    Shape whole(dtype_, cut_.dot->dims());
    if (cut_.result_dim >= 0) whole.dims.at(static_cast<size_t>(cut_.result_dim)) = size;
    Node* result = hlo::splat(c, whole, sums ? neutral_contribution(Combiner::sum, dtype_) : 0);
    std::vector<Node*> state = {other, result, slice};
    if (both_ways_) state.push_back(ring_.pass_on(slice, 1));
    // The last slices are multiplied behind the loop: they go nowhere.
    const int64_t moves = (both_ways_ ? ring_.size() / 2 : ring_.size()) - 1;
    state = move_all(c, std::move(state), moves, unroll_, 0,
                     [&](const auto& values, IndexNode moved) { return move(values, moved); });
    result = multiply(state, IndexNode(c, moves)).at(1);
    if (size > read && !sums) result = cut(result, cut_.result_dim, 0, read);
    return hlo::convert(result, cut_.dot->shape.dtype);
  }

 private:
  // Multiplies the slices held after `moved` moves: that of the device `moved` further on, and,
  // both ways, that of the device 1 + moved back.
  std::vector<Node*> multiply(std::vector<Node*> state, IndexNode moved) const {
    const IndexNode place = ring_.place(moved->parent());
    state[1] = join(state[1], state[2], state[0], ring_.place_after(place, moved));
    if (both_ways_) {
      const IndexNode back = ring_.size() - 1 - moved;
      state[1] = join(state[1], state[3], state[0], ring_.place_after(place, back));
    }
    return state;
  }

  std::vector<Node*> move(const std::vector<Node*>& state, IndexNode moved) const {
    std::vector<Node*> next = multiply(state, moved);
    next[2] = ring_.pass_on(state[2], -1);
    if (both_ways_) next[3] = ring_.pass_on(state[3], 1);
    return next;
  }

  Node* join(Node* result, Node* slice, Node* other, IndexNode block) const {
    const int64_t size = slice->dim(cut_.dim);
    if (cut_.other_dim >= 0) other = cut(other, cut_.other_dim, block * size, size);
    Node* const part = product(cut_, slice, other, dtype_);
    if (cut_.kind == DimKind::contracting) return hlo::add(result, part);
    return put_block(result, part, cut_.result_dim, block);
  }

  WindowCut cut_;
  Ring ring_;
  bool both_ways_;
  int64_t unroll_;
  DType dtype_ = DType::f32;
};

// reduce-scatter(dot(x, y)): sums go round the ring, each device adds its share of the slice that
// passes; after the last step every device holds its own. Each slice has `size` elements, the last
// ones of them may be a tail.
class ScatterLoop {
 public:
  ScatterLoop(const WindowCut& cut, Ring ring, int64_t size, const WindowedEinsumOptions& options)
      : cut_(cut),
        ring_(std::move(ring)),
        size_(size),
        both_ways_(options.bidirectional && ring_.size() % 2 == 0),
        unroll_(options.unroll ? 2 : 1),
        dtype_(sum_dtype(*cut.dot)) {}

  Node* emit_instead() {
    Computation& c = cut_.dot->parent();
    std::vector<Node*> state = {cut_.dot->operand(0), cut_.dot->operand(1)};
    const auto mine = static_cast<size_t>(cut_.operand);
    state[mine] = pad_to(state[mine], cut_.dim, size_ * ring_.size());
    state[1 - mine] = pad_to(state[1 - mine], cut_.other_dim, size_ * ring_.size());
    const IndexNode first(c, 0);
    state.push_back(share(state, first, true));
    if (both_ways_) state.push_back(share(state, first, false));
    state = move_all(c, std::move(state), way() - 1, unroll_, 1,
                     [&](const auto& values, IndexNode step) { return move(values, step); });
    Node* sum = state[2];
    if (both_ways_) sum = hlo::add(sum, ring_.pass_on(state[3], -1));
    return hlo::convert(sum, cut_.dot->shape.dtype);
  }

 private:
  // Devices that a sum visits on its way.
  int64_t way() const { return both_ways_ ? ring_.size() / 2 : ring_.size(); }

  // This device's part of the sum that it holds at `step`. Forward sums end at their owner after
  // way() - 1 steps, backward ones one device behind it.
  Node* share(const std::vector<Node*>& state, IndexNode step, bool forward) const {
    const IndexNode distance = forward ? way() - 1 - step : step + (ring_.size() - way());
    const IndexNode first = ring_.place_after(ring_.place(step->parent()), distance) * size_;
    Node* const mine = cut(state[static_cast<size_t>(cut_.operand)], cut_.dim, first, size_);
    Node* other = state[static_cast<size_t>(1 - cut_.operand)];
    if (cut_.other_dim >= 0) other = cut(other, cut_.other_dim, first, size_);
    return product(cut_, mine, other, dtype_);
  }

  std::vector<Node*> move(const std::vector<Node*>& state, IndexNode step) const {
    std::vector<Node*> next = state;
    next[2] = hlo::add(ring_.pass_on(state[2], 1), share(state, step, true));
    if (both_ways_) next[3] = hlo::add(ring_.pass_on(state[3], -1), share(state, step, false));
    return next;
  }

  WindowCut cut_;
  Ring ring_;
  int64_t size_;
  bool both_ways_;
  int64_t unroll_;
  DType dtype_;
};

// The one reader of `node`, nullptr where there are others.
Node* only_user(const Node& node) {
  return node.users().size() == 1 && !node.is_root() ? node.users()[0] : nullptr;
}

// Whether a slice keeps all but the last elements of one dim: what a gather of uneven shards ends
// in.
bool cuts_tail(const Node& slice, int64_t dim) {
  if (!slice.is(Opcode::slice)) return false;
  for (size_t d = 0; d < slice.dims().size(); ++d)
    if (slice.attrs.starts[d] != 0 || slice.attrs.strides[d] != 1 ||
        (static_cast<int64_t>(d) != dim && slice.dims()[d] != slice.operand(0)->dims()[d]))
      return false;
  return true;
}

// Whether a pad puts zeros behind one dim and does nothing else.
bool adds_tail(const Node& pad, int64_t dim) {
  if (!pad.is(Opcode::pad) || !pad.operand(1)->is(Opcode::constant) ||
      pad.operand(1)->attrs.literal.at(0) != 0)
    return false;
  for (size_t d = 0; d < pad.dims().size(); ++d) {
    const PaddingDim& p = pad.attrs.padding[d];
    if (p.low != 0 || p.interior != 0 || p.high < 0 ||
        (static_cast<int64_t>(d) != dim && p.high != 0))
      return false;
  }
  return true;
}

bool opted_out(const Node& node) {
  const auto found = node.frontend_attributes.find("_xla_collective_matmul");
  return found != node.frontend_attributes.end() && found->second == "none";
}

class Windowing {
 public:
  Windowing(Module& module, const WindowedEinsumOptions& options)
      : module_(module), options_(options) {}

  bool run() {
    std::vector<Node*> dots;
    for (const std::unique_ptr<Computation>& computation : module_.computations())
      for (const std::unique_ptr<Node>& node : computation->nodes())
        if (is_einsum(*node) && !opted_out(*node)) dots.push_back(node.get());
    bool changed = false;
    for (Node* dot : dots) changed |= scatter(*dot) || gather(*dot);
    if (!changed) return false;
    for (const std::unique_ptr<Computation>& computation : module_.computations()) {
      computation->remove_dead();
      computation->sort();
    }
    module_.sort_computations();
    return true;
  }

 private:
  // By the value that is gathered or scattered, or by what the product reads.
  bool large(const Node& dot, const Shape& shape) const {
    if (options_.total_bytes)
      return saturating_add(dot.operand(0)->shape.bytes(), dot.operand(1)->shape.bytes()) >
             *options_.total_bytes;
    return shape.bytes() >= saturating_multiply(options_.threshold_mib, int64_t{1} << 20);
  }

  std::optional<Ring> ring_of(const Node& collective) const {
    Ring ring(collective.attrs.replica_groups, module_.num_partitions);
    if (!ring.regular() || ring.size() < 2 || ring.size() > options_.max_iterations)
      return std::nullopt;
    return ring;
  }

  bool gather(Node& dot) {
    if (!options_.all_gather) return false;
    for (int64_t i = 0; i < 2; ++i) {
      Node* const operand = dot.operand(i);
      const bool tail = operand->is(Opcode::slice) && operand->operand(0)->is(Opcode::all_gather) &&
                        cuts_tail(*operand, operand->operand(0)->attrs.dimensions.at(0));
      Node& collective = tail ? *operand->operand(0) : *operand;
      const bool alone = collective.users().size() == 1 && operand->users().size() == 1;
      if (!collective.is(Opcode::all_gather) || collective.operands().size() != 1 ||
          (!alone && !options_.skip_checking_users) || dot.operand(0) == dot.operand(1) ||
          !large(dot, collective.shape))
        continue;
      const std::optional<Ring> ring = ring_of(collective);
      if (!ring) continue;
      const EmissionScope scope(dot.metadata, dot.backward);
      const WindowCut cut = cut_along(dot, i, collective.attrs.dimensions.at(0));
      Node* const result = GatherLoop(cut, *ring, options_).emit_instead(collective.operand(0));
      dot.parent().replace_uses(&dot, result);
      return true;
    }
    return false;
  }

  bool scatter(Node& dot) {
    if (!options_.reduce_scatter) return false;
    Node* user = only_user(dot);
    const Node* const pad = user && user->is(Opcode::pad) ? user : nullptr;
    if (pad) user = only_user(*pad);
    if (!user || !user->is(Opcode::reduce_scatter)) return false;
    Node& collective = *user;
    const int64_t dim = collective.attrs.dimensions.at(0);
    if (collective.operands().size() != 1 || (pad && !adds_tail(*pad, dim)) ||
        recognize_combiner(*collective.called.at(0)) != Combiner::sum || !large(dot, dot.shape))
      return false;
    const std::optional<Ring> ring = ring_of(collective);
    if (!ring) return false;
    const EmissionScope scope(dot.metadata, dot.backward);
    const WindowCut cut = cut_of_result(dot, dim);
    ScatterLoop loop(cut, *ring, collective.dim(dim), options_);
    dot.parent().replace_uses(&collective, loop.emit_instead());
    return true;
  }

  Module& module_;
  const WindowedEinsumOptions& options_;
};

}  // namespace

bool loop_windowed_einsums(Module& module, const WindowedEinsumOptions& options) {
  return module.num_partitions > 1 && Windowing(module, options).run();
}

}  // namespace gspmd
