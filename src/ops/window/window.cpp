#include "ops/window/window.h"

#include <limits>
#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/rows.h"
#include "ops/window/gradient.h"

namespace gspmd {
namespace {

using Wide = __int128;

// x with a * x = gcd(a, m) modulo m.
int64_t inverse_modulo(int64_t a, int64_t m) {
  Wide r = a, next_r = m, x = 1, next_x = 0;
  while (next_r != 0) {
    const Wide q = r / next_r;
    std::swap(r -= q * next_r, next_r);
    std::swap(x -= q * next_x, next_x);
  }
  return static_cast<int64_t>(((x % m) + m) % m);
}

Wide floor_divide(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

// Extent of n elements with d - 1 holes between neighbours.
Wide dilated(Wide n, Wide d) { return n == 0 ? 0 : (n - 1) * d + 1; }

void check_field(const Node& node, const char* field, size_t dim, int64_t value, int64_t least) {
  // Sums and products of a few such numbers fit into 128 bits.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 4;
  if (value < least || value > kMost)
    user_error("{}: {} of window dim {} is {}; it has to be from {} to {}",
               opcode_name(node.opcode()), field, dim, value, least, kMost);
}

}  // namespace

WindowRun window_run(const WindowDim& dim, int64_t input_size, int64_t position) {
  // Window index w reads place start + w * window_dilation of the dilated input, which holds an
  // element at every multiple of base_dilation.
  WindowRun run;
  const Wide base = dim.base_dilation, step = dim.window_dilation;
  const Wide start = Wide(position) * dim.stride - dim.pad_low;
  const Wide end = dilated(input_size, base);
  Wide first = start >= 0 ? 0 : floor_divide(-start + step - 1, step);
  const Wide last = std::min<Wide>(dim.size - 1, end <= start ? -1 : (end - 1 - start) / step);
  if (base > 1) {
    // The least w >= first with start + w * step = 0 modulo base.
    const auto gcd = static_cast<int64_t>(
        std::gcd(static_cast<int64_t>(step % base), static_cast<int64_t>(base)));
    const Wide at = start + first * step;
    const Wide missing = ((-at) % base + base) % base;
    if (missing % gcd != 0) return run;
    const Wide period = base / gcd;
    run.window_step = static_cast<int64_t>(period);
    const Wide inverse =
        inverse_modulo(static_cast<int64_t>(step % base), static_cast<int64_t>(base));
    first += (missing / gcd) % period * (inverse % period) % period;
  }
  if (first > last) return run;
  run.window_first = static_cast<int64_t>(first);
  run.input_first = static_cast<int64_t>((start + first * step) / base);
  run.count = static_cast<int64_t>((last - first) / run.window_step + 1);
  run.input_step = run.count > 1 ? static_cast<int64_t>(Wide(run.window_step) * step / base) : 0;
  return run;
}

std::vector<WindowRun> window_runs(const WindowDim& dim, int64_t input_size, int64_t positions) {
  std::vector<WindowRun> runs;
  runs.reserve(static_cast<size_t>(positions));
  for (int64_t i = 0; i < positions; ++i) runs.push_back(window_run(dim, input_size, i));
  return runs;
}

bool is_trivial(const WindowDim& dim) {
  WindowDim plain;
  plain.window_dilation = dim.window_dilation;  // these two say nothing of a window of one
  plain.reversal = dim.reversal;
  return dim == plain;
}

Overlap overlap_of(const std::vector<WindowRun>& runs) {
  bool prefixes = runs.size() > 1, suffixes = runs.size() > 1;
  const auto end = [](const WindowRun& run) { return run.input_first + run.count - 1; };
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].count == 0 || (runs[i].count > 1 && runs[i].input_step != 1)) return Overlap::none;
    if (i == 0) continue;
    const bool same_begin = runs[i].input_first == runs[i - 1].input_first;
    const bool same_end = end(runs[i]) == end(runs[i - 1]);
    prefixes = prefixes && same_begin && runs[i].count == runs[i - 1].count + 1;
    suffixes = suffixes && same_end && runs[i].count + 1 == runs[i - 1].count;
  }
  return prefixes ? Overlap::prefixes : suffixes ? Overlap::suffixes : Overlap::none;
}

int64_t prefix_dim(const Node& node) {
  const Dims positions = leaf_shapes(node.shape)[0].dims;
  int64_t found = -1;
  for (size_t d = 0; d < node.attrs.window.size(); ++d) {
    const WindowDim& dim = node.attrs.window[d];
    if (is_trivial(dim)) continue;
    const int64_t size = node.operand(0)->dims()[d];
    if (found >= 0 || overlap_of(window_runs(dim, size, positions[d])) != Overlap::prefixes)
      return -1;
    found = static_cast<int64_t>(d);
  }
  return found;
}

Dims window_positions(const Node& node, const std::vector<WindowDim>& window, const Dims& dims) {
  if (window.size() != dims.size())
    user_error("{}: the window has {} dims, it slides over {} dims; write one field per dim",
               opcode_name(node.opcode()), window.size(), dims.size());
  Dims positions;
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDim& w = window[d];
    constexpr int64_t kLeastPad = std::numeric_limits<int64_t>::min() / 4;
    check_field(node, "size", d, w.size, 1);
    check_field(node, "stride", d, w.stride, 1);
    check_field(node, "lhs_dilate", d, w.base_dilation, 1);
    check_field(node, "rhs_dilate", d, w.window_dilation, 1);
    check_field(node, "low padding", d, w.pad_low, kLeastPad);
    check_field(node, "high padding", d, w.pad_high, kLeastPad);
    const Wide extent = dilated(dims[d], w.base_dilation) + w.pad_low + w.pad_high;
    const Wide reach = dilated(w.size, w.window_dilation);
    const Wide count = extent < reach ? 0 : (extent - reach) / w.stride + 1;
    if (extent < 0)
      user_error("{}: padding {}_{} takes more than the {} elements that dim {} has",
                 opcode_name(node.opcode()), w.pad_low, w.pad_high, dims[d], d);
    if (count > std::numeric_limits<int64_t>::max() / 4)
      user_error("{}: the window has more positions in dim {} than can be addressed",
                 opcode_name(node.opcode()), d);
    positions.push_back(static_cast<int64_t>(count));
  }
  return positions;
}

namespace {

// Operands: n inputs of equal dims, then n scalar initial values.
Shape infer_reduce_window(const Node& node) {
  const Dims positions = window_positions(node, node.attrs.window, array_operand(node, 0).dims);
  const Shape result = arrays_of(check_inputs_and_starts(node), positions);
  for (const Shape& leaf : leaf_shapes(result)) checked_size(node, leaf);
  // One input may come with a tuple of one.
  return node.shape.is_tuple && !result.is_tuple ? Shape::tuple({result}) : result;
}

// No window reads beside the elements.
bool reads_inside(const Node& node) {
  return std::all_of(node.attrs.window.begin(), node.attrs.window.end(), [](const WindowDim& w) {
    return w.pad_low <= 0 && w.pad_high <= 0 && w.base_dilation == 1;
  });
}

// One window over all of dim `d`: its elements are summed, wherever they are.
void add_whole_window(FactorRule& rule, const Node& node, size_t d, Combiner combiner) {
  const WindowDim& w = node.attrs.window[d];
  const int64_t size = node.operand(0)->dims()[d];
  if (node.shape.elements_count() != 0 && node.dims()[d] == 1 && size >= 2 &&
      w.window_dilation == 1 && w.base_dilation == 1 && w.pad_low >= 0 &&
      w.size - w.pad_low >= size)
    rule.sums.push_back({{size, FactorKind::reduction, combiner}, static_cast<int64_t>(d)});
}

FactorRule reduce_window_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  const bool single = node.operands().size() == 2 && !node.shape.is_tuple;
  const auto combiner = single ? recognize_combiner(*node.called.at(0)) : std::nullopt;
  const bool reads_neutral = single && (combiner || reads_inside(node));
  if (combiner) rule.outside = neutral_contribution(*combiner, node.shape.dtype);
  const Shape result = leaf_shapes(node.shape)[0];
  for (size_t d = 0; d < result.dims.size(); ++d) {
    const bool pass = is_trivial(node.attrs.window[d]);
    const int64_t factor =
        add_factor(rule, result.dims[d], pass ? FactorKind::pass : FactorKind::window);
    for (size_t i = 0; i < rule.operands.size() / 2; ++i) rule.operands[i][d] = factor;
    for (std::vector<int64_t>& leaf : rule.results) leaf[d] = factor;
    if (pass || !reads_neutral) continue;
    WindowStep step = window_step(node.attrs.window[d]);
    step.cumulates =
        cumulative_dim(node.attrs.window[d], node.operand(0)->dims()[d], result.dims[d])
            .has_value();
    add_window(rule, 0, static_cast<int64_t>(d), step);
    if (combiner) add_whole_window(rule, node, d, *combiner);
  }
  return rule;
}

// What is fetched has its padding and holes; of a dim that one window is all over, each part
// combines what it has.
Attributes reduce_window_on_part(const Node& node, const NodePart& part) {
  Attributes attrs = node.attrs;
  for (size_t d = 0; d < part.dims.size(); ++d) {
    WindowDim& w = attrs.window.edit()[d];
    if (part.dims[d] == PartDim::whole || is_trivial(w)) continue;
    if (part.dims[d] == PartDim::cut) w = {.size = part.operands[0].dims[d]};
    w.pad_low = w.pad_high = 0;
    w.base_dilation = 1;
  }
  return attrs;
}

int64_t window_elements(const Node& node) {
  int64_t elements = 1;
  for (const WindowDim& dim : node.attrs.window) elements = saturating_multiply(elements, dim.size);
  return elements;
}

// A position of a cumulative window combines one element with what its neighbour has.
int64_t reduce_window_flops(const Node& node) {
  const bool known = node.operands().size() == 2 && recognize_combiner(*node.called.at(0));
  const std::vector<Shape> results = leaf_shapes(node.shape);
  int64_t flops = results[0].elements_count();
  for (size_t d = 0; d < node.attrs.window.size(); ++d) {
    const WindowDim& w = node.attrs.window[d];
    if (!known || !cumulative_dim(w, node.operand(0)->dims()[d], results[0].dims[d]))
      flops = saturating_multiply(flops, w.size);
  }
  return saturating_multiply(flops, static_cast<int64_t>(node.operands().size()) / 2);
}

void check_called(const Node& node, int64_t index, DType dtype, DType result) {
  const Computation& callee = called_computation(node, index, 2);
  check_parameters(node, callee, {Shape(dtype, {}), Shape(dtype, {})});
  if (!(callee.root()->shape == Shape(result, {})))
    user_error("select-and-scatter: computation {} returns {}, it has to return {}", callee.name(),
               to_string(callee.root()->shape), to_string(Shape(result, {})));
}

Shape infer_select_and_scatter(const Node& node) {
  check_operand_count(node, 3);
  const Shape& operand = array_operand(node, 0);
  const Shape& source = array_operand(node, 1);
  scalar_operand(node, 2);
  check_same_dtype(node, 0, 1);
  check_same_dtype(node, 0, 2);
  const Dims positions = window_positions(node, node.attrs.window, operand.dims);
  for (size_t d = 0; d < positions.size(); ++d) {
    const WindowDim& w = node.attrs.window[d];
    if (w.base_dilation != 1 || w.window_dilation != 1)
      user_error("select-and-scatter: window dim {} is dilated; its windows have no dilation", d);
  }
  if (source.dims != positions)
    user_error("select-and-scatter: source is {}, the window has {} positions over {}",
               to_string(source), braces(positions), to_string(operand));
  check_called(node, 0, operand.dtype, DType::pred);
  check_called(node, 1, operand.dtype, operand.dtype);
  return Shape(operand.dtype, operand.dims);
}

FactorRule select_and_scatter_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  for (size_t d = 0; d < node.dims().size(); ++d) {
    const bool pass = is_trivial(node.attrs.window[d]);
    const int64_t factor =
        add_factor(rule, node.dims()[d], pass ? FactorKind::pass : FactorKind::window);
    rule.operands[0][d] = rule.operands[1][d] = rule.results[0][d] = factor;
  }
  return rule;
}

int64_t select_and_scatter_flops(const Node& node) {
  return saturating_multiply(window_elements(node), node.operand(1)->shape.elements_count());
}

// What lies between the elements of a dilated input, or of a dilated window, is nobody's part.
Proposals reduce_window_forward(const Node& node, CompletionMode mode) {
  for (const WindowDim& w : node.attrs.window)
    if (w.base_dilation > 1 || w.window_dilation > 1) return {};
  return nest_forward(node, mode);
}

Proposals select_and_scatter_forward(const Node& node, CompletionMode mode) {
  for (const WindowDim& w : node.attrs.window)
    if (w.base_dilation > 1) return {};
  return nest_forward(node, mode);
}

const OpInfo kWindowRows[] = {
    {.opcode = Opcode::reduce_window,
     .traits = kIntegerPreserving | kMadeAsOne,
     .operands = {2, -1},
     .infer = infer_reduce_window,
     .factors = reduce_window_factors,
     .evaluate = evaluate_reduce_window,
     .gradient = reduce_window_gradient,
     .differentiable_form = reduce_window_form,
     .completion = {.forward = reduce_window_forward, .speakers = Speakers::inputs},
     .partition = partition_cumulative,
     .on_part = reduce_window_on_part,
     .lower = lower_reduce_window,
     .flops = reduce_window_flops},
    {.opcode = Opcode::select_and_scatter,
     .traits = kIntegerPreserving | kPlacedOnAll,
     .operands = {3, 3},
     .infer = infer_select_and_scatter,
     .factors = select_and_scatter_factors,
     .evaluate = evaluate_select_and_scatter,
     .gradient = select_and_scatter_gradient,
     .completion = {.forward = select_and_scatter_forward,
                    .suggestions = same_dims_suggestions,
                    .speakers = Speakers::first},
     .partition = partition_select_and_scatter,
     .lower = lower_select_and_scatter,
     .flops = select_and_scatter_flops},
};

}  // namespace

std::span<const OpInfo> window_rows() { return kWindowRows; }

}  // namespace gspmd
