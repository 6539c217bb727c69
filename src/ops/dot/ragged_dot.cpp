#include "gspmd/base/error.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/loops.h"
#include "ops/common/number_types.h"
#include "ops/common/widen.h"
#include "ops/dot/dot.h"
#include "ops/dot/form.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

// Which kind of dim of lhs the groups cut. Operands: lhs, rhs, sizes of the groups, one after the
// other along that dim; what lies behind the last group is in none.
enum class Mode : uint8_t {
  free,         // each group of rows meets its own rhs: [b,m,k] x [g,b,k,n] -> [b,m,n]
  contracting,  // each group gives a result of its own: [b,m,k] x [b,k,n] -> [g,b,m,n]
  batch,        // [b,m,k] x [b,k,n] -> [b,m,n], whatever the sizes
};

struct Ragged {
  Mode mode = Mode::free;
  int64_t dim = 0;             // ragged dim of lhs
  int64_t group_dim = -1;      // of rhs
  std::vector<DotLoop> loops;  // all but the groups
  Dims prefix;                 // dims of lhs that the sizes may depend on, outermost first
};

int64_t size_of(const Node& node, int64_t operand, int64_t d) {
  return node.operand(operand)->dim(d);
}

Ragged ragged_of(const Node& node) {
  const DotDims& dot = *node.attrs.dot;
  const RaggedDotDims& dims = *node.attrs.ragged;
  Ragged ragged;
  ragged.dim = dims.lhs_ragged.at(0);
  if (!dims.rhs_group.empty()) ragged.group_dim = dims.rhs_group[0];
  ragged.mode = contains(dot.lhs_batch, ragged.dim)         ? Mode::batch
                : contains(dot.lhs_contracting, ragged.dim) ? Mode::contracting
                                                            : Mode::free;
  ragged.loops = dot_loops(node, dims.rhs_group, ragged.mode == Mode::contracting ? 1 : 0);
  // Batch, free, contracting: the dims in front of the ragged one.
  for (const DotLoop& loop : ragged.loops) {
    if (loop.lhs == ragged.dim) break;
    if (loop.lhs >= 0) ragged.prefix.push_back(loop.lhs);
  }
  return ragged;
}

Dims joined(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void check_sizes(const Node& node, const Ragged& ragged) {
  const Shape& sizes = array_operand(node, 2);
  if (!is_integer(sizes.dtype))
    user_error("ragged-dot: the group sizes {} have to be integers", to_string(sizes));
  Dims wanted;
  for (const int64_t d : ragged.prefix) wanted.push_back(size_of(node, 0, d));
  wanted.push_back(sizes.dims.empty() ? 0 : sizes.dims.back());
  if (sizes.rank() != 1 && sizes.dims != wanted)
    user_error(
        "ragged-dot: the group sizes {} have to be one list, or one per element of the dims "
        "{} of the left operand",
        to_string(sizes), braces(ragged.prefix));
  if (ragged.group_dim >= 0 && size_of(node, 1, ragged.group_dim) != sizes.dims.back())
    user_error("ragged-dot: {} groups in {}, dim {} of {} has {}", sizes.dims.back(),
               to_string(sizes), ragged.group_dim, to_string(node.operand(1)->shape),
               size_of(node, 1, ragged.group_dim));
}

Shape infer_ragged_dot(const Node& node) {
  check_operand_count(node, 3);
  const Shape& lhs = array_operand(node, 0);
  const Shape& rhs = array_operand(node, 1);
  const DotDims& dot = *node.attrs.dot;
  const RaggedDotDims& dims = *node.attrs.ragged;
  check_dim_list(node, "lhs batch and contracting dims ",
                 joined(dot.lhs_batch, dot.lhs_contracting), lhs.rank());
  check_dim_list(node, "rhs batch, contracting and group dims ",
                 joined(joined(dot.rhs_batch, dot.rhs_contracting), dims.rhs_group), rhs.rank());
  check_dim_list(node, "lhs_ragged_dims", dims.lhs_ragged, lhs.rank());
  check_pairs(node, "batch", dot.lhs_batch, dot.rhs_batch);
  check_pairs(node, "contracting", dot.lhs_contracting, dot.rhs_contracting);
  if (dims.lhs_ragged.size() != 1)
    user_error("ragged-dot: lhs_ragged_dims={}; exactly one dim is ragged",
               braces(dims.lhs_ragged));
  const Ragged ragged = ragged_of(node);
  const size_t groups = ragged.mode == Mode::free ? 1 : 0;
  if (dims.rhs_group.size() != groups)
    user_error("ragged-dot: rhs_group_dims={}; {} of them belong to a ragged dim of this kind",
               braces(dims.rhs_group), groups);
  check_sizes(node, ragged);
  if (lhs.dtype != rhs.dtype)
    user_error("ragged-dot: operands {} and {} differ in element type; convert one of them first",
               to_string(lhs), to_string(rhs));
  Shape result(declared_array(node).dtype, {});
  if (is_complex(result.dtype) != is_complex(lhs.dtype))
    user_error("ragged-dot: {} cannot give elements of {}", to_string(lhs),
               dtype_name(result.dtype));
  if (ragged.mode == Mode::contracting) result.dims.push_back(node.operand(2)->shape.dims.back());
  for (const DotLoop& loop : ragged.loops)
    if (loop.out >= 0) result.dims.push_back(size_of(node, loop));
  return checked_size(node, std::move(result));
}

// The ragged dim, what the sizes depend on and the groups are whole; the other loops of the result
// are as in a dot.
FactorRule ragged_dot_factors(const Node& node) {
  const Ragged ragged = ragged_of(node);
  FactorRule rule = no_factors(node);
  const bool one_list = node.operand(2)->rank() == 1;
  const auto whole = [&](int64_t d) {
    return ragged.mode != Mode::batch &&
           (d == ragged.dim || (!one_list && contains(ragged.prefix, d)));
  };
  for (int64_t d = 0; d < node.operand(2)->rank(); ++d) block_operand(rule, node, 2, d);
  if (ragged.mode == Mode::contracting) block_result(rule, node, 0);
  // Sums are whole as well: an operand outside of them, as the sizes are, would count as their
  // initial value.
  for (const DotLoop& loop : ragged.loops)
    add_loop(rule, node, loop,
             loop.out < 0 || whole(loop.lhs) ? FactorKind::blocked : FactorKind::pass);
  if (ragged.group_dim >= 0) block_operand(rule, node, 1, ragged.group_dim);
  return rule;
}

// Where the groups of each line along the ragged dim end.
class Groups {
 public:
  Groups(const Node& node, const Ragged& ragged, const Array& sizes)
      : count_(sizes.dims().back()), one_list_(sizes.shape().rank() == 1) {
    for (int64_t i = 0; i < sizes.size(); ++i) {
      const int64_t before = i % count_ == 0 ? 0 : ends_.back();
      const int64_t most = size_of(node, 0, ragged.dim);
      // Negative sizes count as empty groups.
      ends_.push_back(std::min(most, before + clamped_start(sizes, i, most, 0)));
    }
  }
  // The group of position `at` on line `line`; -1 behind the last one.
  int64_t group(int64_t line, int64_t at) const {
    const auto begin = ends_.begin() + (one_list_ ? 0 : line * count_);
    const auto found = std::upper_bound(begin, begin + count_, at);
    return found == begin + count_ ? -1 : found - begin;
  }

 private:
  int64_t count_;
  bool one_list_;
  Dims ends_;
};

// One loop over a dim of the result or a contracted dim, and its step in each array.
struct Loops {
  Dims dims;
  std::array<Dims, 5> steps;  // lhs, rhs, result, position along the ragged dim, line of the sizes
  void add(int64_t size, std::array<int64_t, 5> step) {
    dims.push_back(size);
    for (size_t i = 0; i < step.size(); ++i) steps[i].push_back(step[i]);
  }
};

Loops loops_of(const Node& node, const Ragged& ragged) {
  const Dims lhs = row_major_strides(node.operand(0)->dims());
  const Dims rhs = row_major_strides(node.operand(1)->dims());
  const Dims out = row_major_strides(node.dims());
  std::vector<int64_t> lines(static_cast<size_t>(node.operand(0)->rank()), 0);
  int64_t line = 1;
  for (size_t i = ragged.prefix.size(); i-- > 0;) {
    lines[static_cast<size_t>(ragged.prefix[i])] = line;
    line *= size_of(node, 0, ragged.prefix[i]);
  }
  const auto at = [](const Dims& list, int64_t i) { return list[static_cast<size_t>(i)]; };
  Loops loops;
  for (const DotLoop& loop : ragged.loops)
    loops.add(size_of(node, loop),
              {loop.lhs >= 0 ? at(lhs, loop.lhs) : 0, loop.rhs >= 0 ? at(rhs, loop.rhs) : 0,
               loop.out >= 0 ? at(out, loop.out) : 0, loop.lhs == ragged.dim ? 1 : 0,
               loop.lhs >= 0 ? at(lines, loop.lhs) : 0});
  return loops;
}

template <class A>
std::vector<A> products(const Node& node, const std::vector<A>& lhs, const std::vector<A>& rhs,
                        const Array& sizes) {
  const Ragged ragged = ragged_of(node);
  const Groups groups(node, ragged, sizes);
  const Loops loops = loops_of(node, ragged);
  const int64_t group_step =
      ragged.mode == Mode::free
          ? row_major_strides(node.operand(1)->dims())[static_cast<size_t>(ragged.group_dim)]
          : 0;
  const int64_t result_step =
      ragged.mode == Mode::contracting ? row_major_strides(node.dims())[0] : 0;
  std::vector<A> out(static_cast<size_t>(node.shape.elements_count()), A(0));
  for_each_offset<5>(loops.dims, loops.steps, {0, 0, 0, 0, 0},
                     [&](const std::array<int64_t, 5>& at) {
                       int64_t group = 0;
                       if (ragged.mode != Mode::batch) group = groups.group(at[4], at[3]);
                       if (group < 0) return;
                       add_product(out[static_cast<size_t>(at[2] + group * result_step)],
                                   lhs[static_cast<size_t>(at[0])],
                                   rhs[static_cast<size_t>(at[1] + group * group_step)]);
                     });
  return out;
}

Value evaluate_ragged_dot(const EvalContext& context) {
  const Node& node = context.node;
  const Array& lhs = context.operands[0].array;
  const Array result(node.shape);
  if (result.size() == 0 || lhs.size() == 0 || context.operands[2].array.size() == 0)
    return {result, {}, false};
  visit_number(lhs.dtype(), [&](auto operand) {
    using A = ProductAccumulator<typename decltype(operand)::type>;
    const std::vector<A> sums =
        products(node, to_accumulators<A>(lhs), to_accumulators<A>(context.operands[1].array),
                 context.operands[2].array);
    from_accumulators(sums, result);
  });
  return {result, {}, false};
}

int64_t ragged_dot_flops(const Node& node) {
  int64_t flops = saturating_multiply(2, node.shape.elements_count());
  for (const int64_t d : node.attrs.dot->lhs_contracting)
    if (d != node.attrs.ragged->lhs_ragged.at(0))
      flops = saturating_multiply(flops, size_of(node, 0, d));
  return flops;
}

const OpInfo kRaggedDotRows[] = {
    {.opcode = Opcode::ragged_dot,
     .traits = kIntegerPreserving,
     .operands = {3, 3},
     .infer = infer_ragged_dot,
     .factors = ragged_dot_factors,
     .evaluate = any_width<evaluate_ragged_dot>,
     .differentiable_form = ragged_dot_form,
     .completion = kPointwiseCompletion,
     .flops = ragged_dot_flops,
     .batch = batch_in_loop},
};

}  // namespace

std::span<const OpInfo> ragged_dot_rows() { return kRaggedDotRows; }

}  // namespace gspmd
