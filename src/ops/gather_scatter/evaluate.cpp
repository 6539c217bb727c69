#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/common/combine_values.h"
#include "ops/common/loops.h"
#include "ops/common/widen.h"
#include "ops/gather_scatter/gather_scatter.h"

namespace gspmd {
namespace {

// Where the slices of a gather or a scatter lie, at the sizes of one node.
class Slices {
 public:
  Slices(SliceDims dims, const Array& indices, const Dims& operand, const Dims& result)
      : dims_(std::move(dims)),
        operand_(operand),
        operand_strides_(row_major_strides(operand)),
        result_strides_(row_major_strides(result)),
        index_strides_(row_major_strides(indices.dims())) {
    for (const int64_t d : dims_.batch_result) counts_.push_back(result[static_cast<size_t>(d)]);
    window_.assign(operand.size(), 1);
    for (size_t i = 0; i < dims_.window_result.size(); ++i)
      window_[static_cast<size_t>(dims_.window_operand[i])] =
          result[static_cast<size_t>(dims_.window_result[i])];
  }

  // Calls body(operand offset, result offset) for every element of every slice, slice by slice.
  // `start_of(index element, operand dim size, window size)` gives a start, nullopt drops the
  // slice.
  template <class StartOf, class Body>
  void for_each(StartOf&& start_of, Body&& body) const {
    const Dims batch_result = picked(result_strides_, dims_.batch_result);
    const Dims batch_indices = picked(index_strides_, dims_.batch_indices);
    const Dims window_operand = picked(operand_strides_, dims_.window_operand);
    const Dims window_result = picked(result_strides_, dims_.window_result);
    const Dims window = picked(window_, dims_.window_operand);
    const Dims batching = batching_strides();
    for_each_offset<3>(
        counts_, {batch_result, batch_indices, batching}, {0, 0, 0},
        [&](const std::array<int64_t, 3>& slice) {
          int64_t origin = slice[2];
          const int64_t component = component_stride();
          for (size_t i = 0; i < dims_.index_to_operand.size(); ++i) {
            const auto d = static_cast<size_t>(dims_.index_to_operand[i]);
            const std::optional<int64_t> start =
                start_of(slice[1] + static_cast<int64_t>(i) * component, operand_[d], window_[d]);
            if (!start) return;
            origin += *start * operand_strides_[d];
          }
          for_each_offset<2>(window, {window_operand, window_result}, {origin, slice[0]},
                             [&](const std::array<int64_t, 2>& at) { body(at[0], at[1]); });
        });
  }

 private:
  static Dims picked(const Dims& from, const Dims& which) {
    Dims values;
    for (const int64_t d : which) values.push_back(from[static_cast<size_t>(d)]);
    return values;
  }
  int64_t component_stride() const {
    const auto d = static_cast<size_t>(dims_.index_vector_dim);
    return d < index_strides_.size() ? index_strides_[d] : 0;
  }
  // A step along a batching dim of the indices also moves the slice's origin in the operand.
  Dims batching_strides() const {
    Dims strides(dims_.batch_indices.size(), 0);
    for (size_t i = 0; i < dims_.indices_batching.size(); ++i)
      for (size_t b = 0; b < strides.size(); ++b)
        if (dims_.batch_indices[b] == dims_.indices_batching[i])
          strides[b] = operand_strides_[static_cast<size_t>(dims_.operand_batching[i])];
    return strides;
  }

  SliceDims dims_;
  Dims operand_, operand_strides_, result_strides_, index_strides_;
  Dims counts_;  // of slices
  Dims window_;  // size of a slice in each operand dim
};

// The start of a scatter's window where it lies inside, else nullopt: such a slice is dropped
// whole.
std::optional<int64_t> inner_start(const Array& indices, int64_t element, int64_t dim,
                                   int64_t size) {
  const int64_t start = index_at(indices, element);
  if (start < 0 || start > dim - size) return std::nullopt;
  return start;
}

}  // namespace

Value evaluate_gather(const EvalContext& context) {
  const Array& operand = context.operands[0].array;
  const Array& indices = context.operands[1].array;
  const Array result(context.node.shape);
  if (result.size() == 0) return {result, {}, false};
  const auto size = static_cast<size_t>(dtype_size(result.dtype()));
  const std::byte* const in = operand.bytes().data();
  std::byte* const out = result.bytes().data();
  const Slices slices(gather_slice_dims(context.node), indices, operand.dims(), result.dims());
  slices.for_each(
      [&](int64_t element, int64_t dim, int64_t window) -> std::optional<int64_t> {
        return clamped_start(indices, element, dim, window);
      },
      [&](int64_t from, int64_t to) {
        std::memcpy(out + static_cast<size_t>(to) * size, in + static_cast<size_t>(from) * size,
                    size);
      });
  return {result, {}, false};
}

namespace {

// Of one operand, whose combiner is a known one.
Value scatter_known(const EvalContext& context) {
  const Array result = context.operands[0].array.clone();
  const Array& indices = context.operands[1].array;
  const Array& updates = context.operands[2].array;
  const Combiner combiner = *recognize_combiner(*context.node.called[0]);
  const Slices slices(scatter_slice_dims(context.node), indices, result.dims(), updates.dims());
  visit_number(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = AccumulatorOf<T>;
    const std::span<T> out = result.data<T>();
    const std::span<const T> in = updates.data<T>();
    std::vector<Wrapped<A>> sums;
    for (const T value : out) sums.push_back({convert_element<A>(value)});
    slices.for_each([&](int64_t element, int64_t dim,
                        int64_t window) { return inner_start(indices, element, dim, window); },
                    [&](int64_t to, int64_t from) {
                      A& sum = sums[static_cast<size_t>(to)].value;
                      sum =
                          combine(combiner, sum, convert_element<A>(in[static_cast<size_t>(from)]));
                    });
    for (size_t i = 0; i < out.size(); ++i) out[i] = convert_element<T>(sums[i].value);
  });
  return {result, {}, false};
}

}  // namespace

Value evaluate_scatter(const EvalContext& context) {
  const Node& node = context.node;
  const size_t inputs = node.operands().size() / 2;
  const Array& indices = context.operands[inputs].array;
  std::vector<Array> results;
  std::vector<Array> updates;
  for (size_t i = 0; i < inputs; ++i) {
    results.push_back(context.operands[i].array.clone());
    updates.push_back(context.operands[inputs + 1 + i].array);
  }
  if (updates[0].size() == 0) return pack(node.shape, results);
  if (inputs == 1 && recognize_combiner(*node.called[0]))
    return evaluate_any_width(context, scatter_known);
  const Slices slices(scatter_slice_dims(node), indices, results[0].dims(), updates[0].dims());
  CalledCombiner combiner(context.call, *node.called[0], results, updates);
  slices.for_each([&](int64_t element, int64_t dim,
                      int64_t window) { return inner_start(indices, element, dim, window); },
                  [&](int64_t to, int64_t from) { combiner.combine(to, from); });
  return pack(node.shape, results);
}

}  // namespace gspmd
