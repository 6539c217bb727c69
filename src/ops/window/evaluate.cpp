#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/common/combine_values.h"
#include "ops/common/loops.h"
#include "ops/common/scalar_program.h"
#include "ops/common/widen.h"
#include "ops/window/window.h"

namespace gspmd {
namespace {

// One pass of a combiner along dim `d` of dense `values`: from dims before, runs.size() positions.
// Whether the combiner is applied dim by dim or to whole windows is one number: it is associative.
template <class A>
struct Pass {
  Combiner combiner;
  A identity;
  int64_t outer, size, inner;  // of the input around and along the dim

  void add_row(A* to, const A* from) const {
    for (int64_t i = 0; i < inner; ++i) to[i] = combine(combiner, to[i], from[i]);
  }
  void add_run(A* to, const A* values, const WindowRun& run) const {
    for (int64_t i = 0; i < run.count; ++i)
      add_row(to, values + (run.input_first + i * run.input_step) * inner);
  }

  std::vector<Wrapped<A>> apply(const A* values, const std::vector<WindowRun>& runs) const {
    const auto positions = static_cast<int64_t>(runs.size());
    std::vector<Wrapped<A>> out(static_cast<size_t>(outer * positions * inner), {identity});
    const Overlap overlap = overlap_of(runs);
    for (int64_t o = 0; o < outer; ++o) {
      const A* const from = values + o * size * inner;
      A* const to = &out.data()->value + o * positions * inner;
      for (int64_t n = 0; n < positions; ++n) {
        const int64_t p = overlap == Overlap::suffixes ? positions - 1 - n : n;
        const WindowRun& run = runs[static_cast<size_t>(p)];
        if (overlap == Overlap::none || n == 0) {
          add_run(to + p * inner, from, run);
          continue;
        }
        const bool prefix = overlap == Overlap::prefixes;
        std::copy_n(to + (prefix ? p - 1 : p + 1) * inner, inner, to + p * inner);
        add_row(to + p * inner, from + (run.input_first + (prefix ? run.count - 1 : 0)) * inner);
      }
    }
    return out;
  }
};

// Of one real array, by a computation that is a combiner.
Value reduce_window_known(const EvalContext& context) {
  const Node& node = context.node;
  const Combiner combiner = recognize_combiner(*node.called[0]).value();
  const Array& x = context.operands[0].array;
  const Array result(leaf_shapes(node.shape)[0]);
  if (result.size() == 0) return pack(node.shape, {&result, 1});
  visit_dtype(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = AccumulatorOf<T>;
    const A identity = convert_element<A>(neutral_contribution(combiner, x.dtype()));
    std::vector<Wrapped<A>> values;
    for (const T value : x.data<T>()) values.push_back({A(value)});
    Dims dims = x.dims();
    for (size_t d = 0; d < dims.size(); ++d) {
      if (is_trivial(node.attrs.window[d])) continue;
      Pass<A> pass{combiner, identity, 1, dims[d], 1};
      for (size_t i = 0; i < d; ++i) pass.outer *= dims[i];
      for (size_t i = d + 1; i < dims.size(); ++i) pass.inner *= dims[i];
      dims[d] = result.dims()[d];
      const A* const from = values.empty() ? nullptr : &values.data()->value;
      values = pass.apply(from, window_runs(node.attrs.window[d], pass.size, dims[d]));
    }
    const A init = A(context.operands[1].array.data<T>()[0]);
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = convert_element<T>(combine(combiner, init, values[i].value));
  });
  return pack(node.shape, {&result, 1});
}

// The window positions of all dims, one output index at a time.
class WindowGrid {
 public:
  WindowGrid(const std::vector<WindowDim>& window, const Dims& input, const Dims& positions)
      : strides_(row_major_strides(input)) {
    for (size_t d = 0; d < window.size(); ++d)
      runs_.push_back(window_runs(window[d], input[d], positions[d]));
  }

  // Calls body(offset) for each element of the window at `index`, in row-major order of the window.
  template <class Body>
  void visit(const Dims& index, Body&& body) {
    counts_.assign(index.size(), 0);
    std::array<Dims, 1> steps{Dims(index.size(), 0)};
    int64_t base = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      const WindowRun& run = runs_[d][static_cast<size_t>(index[d])];
      counts_[d] = run.count;
      steps[0][d] = run.input_step * strides_[d];
      base += run.input_first * strides_[d];
    }
    for_each_offset<1>(counts_, steps, {base},
                       [&](const std::array<int64_t, 1>& at) { body(at[0]); });
  }
  const std::vector<WindowRun>& runs(size_t d) const { return runs_[d]; }
  int64_t stride(size_t d) const { return strides_[d]; }

 private:
  std::vector<std::vector<WindowRun>> runs_;
  Dims strides_, counts_;
};

// Calls body(index, offset) for every index of `dims` in row-major order.
template <class Body>
void for_each_index(const Dims& dims, Body&& body) {
  Dims index(dims.size(), 0);
  const int64_t count = Shape(DType::pred, dims).elements_count();
  for (int64_t offset = 0; offset < count; ++offset) {
    body(index, offset);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

Value evaluate_reduce_window(const EvalContext& context) {
  const Node& node = context.node;
  const size_t inputs = node.operands().size() / 2;
  if (inputs == 1 && !is_complex(context.operands[0].array.dtype()) &&
      recognize_combiner(*node.called[0]))
    return evaluate_any_width(context, reduce_window_known);
  const std::vector<Array> results = initial_results(context);
  if (results[0].size() == 0) return pack(node.shape, results);
  CalledCombiner combiner(context.call, *node.called[0], results, inputs_of(context));
  const Dims& positions = results[0].dims();
  WindowGrid grid(node.attrs.window, context.operands[0].array.dims(), positions);
  const int64_t along = prefix_dim(node);
  const int64_t step = along < 0 ? 0 : row_major_strides(positions)[static_cast<size_t>(along)];
  for_each_index(positions, [&](const Dims& index, int64_t at) {
    const int64_t i = along < 0 ? 0 : index[static_cast<size_t>(along)];
    if (i == 0) {
      grid.visit(index, [&](int64_t from) { combiner.combine(at, from); });
      return;
    }
    // What the position before has, and the last element of this one.
    combiner.copy(at, at - step);
    int64_t last = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      const WindowRun& run = grid.runs(d)[static_cast<size_t>(index[d])];
      last += (run.input_first + (run.count - 1) * run.input_step) * grid.stride(d);
    }
    combiner.combine(at, last);
  });
  return pack(node.shape, results);
}

// Each element of source goes to the element of its window that `select` keeps: the first one is
// replaced by a later one where select(kept, later) is false.
Value evaluate_select_and_scatter(const EvalContext& context) {
  const Node& node = context.node;
  const Array& operand = context.operands[0].array;
  const Array& source = context.operands[1].array;
  const Array result(node.shape);
  fill_elements(result, context.operands[2].array);
  if (source.size() == 0 || operand.size() == 0) return {result, {}, false};
  ScalarProgram select(*node.called[0], context.call);
  ScalarProgram scatter(*node.called[1], context.call);
  const int64_t size = dtype_size(operand.dtype());
  const std::byte* const values = operand.bytes().data();
  const std::byte* const added = source.bytes().data();
  std::byte* const out = result.bytes().data();
  WindowGrid grid(node.attrs.window, operand.dims(), source.dims());
  for_each_index(source.dims(), [&](const Dims& index, int64_t at) {
    int64_t kept = -1;
    grid.visit(index, [&](int64_t later) {
      if (kept >= 0) {
        select.set(0, values + kept * size);
        select.set(1, values + later * size);
        select.run();
        if (select.result(0)[0] != std::byte{0}) return;
      }
      kept = later;
    });
    if (kept < 0) return;
    scatter.set(0, added + at * size);
    scatter.set(1, out + kept * size);
    scatter.run();
    scatter.take(0, out + kept * size);
  });
  return {result, {}, false};
}

}  // namespace gspmd
