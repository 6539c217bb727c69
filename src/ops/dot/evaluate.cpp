#include "ops/common/loops.h"
#include "ops/common/number_types.h"
#include "ops/common/widen.h"
#include "ops/dot/dot.h"

namespace gspmd {
namespace {

// One side as a contiguous [batch, rows, columns] matrix of accumulators.
template <class A>
std::vector<A> pack_side(const Array& array, const Dims& order) {
  const Dims strides = row_major_strides(array.dims());
  Dims dims;
  Dims from;
  for (const int64_t d : order) {
    dims.push_back(array.dims()[static_cast<size_t>(d)]);
    from.push_back(strides[static_cast<size_t>(d)]);
  }
  std::vector<A> packed;
  packed.reserve(static_cast<size_t>(array.size()));
  visit_number(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> in = array.data<T>();
    for_each_offset<1>(dims, {from}, {0}, [&](const std::array<int64_t, 1>& at) {
      const T value = in[static_cast<size_t>(at[0])];
      if constexpr (std::is_same_v<A, uint8_t>)
        packed.push_back(convert_element<bool>(value) ? 1 : 0);
      else
        packed.push_back(convert_element<A>(value));
    });
  });
  return packed;
}

int64_t sizes_product(const Array& array, const Dims& dims) {
  Shape part(array.dtype(), {});
  for (const int64_t d : dims) part.dims.push_back(array.dims()[static_cast<size_t>(d)]);
  return part.elements_count();
}

Dims joined(Dims first, const Dims& second, const Dims& third) {
  first.insert(first.end(), second.begin(), second.end());
  first.insert(first.end(), third.begin(), third.end());
  return first;
}

struct Sizes {
  int64_t batch, m, n, k;
};

template <class A>
std::vector<A> multiply(const Sizes& s, const std::vector<A>& a, const std::vector<A>& b) {
  std::vector<A> out(static_cast<size_t>(s.batch * s.m * s.n), A(0));
  for (int64_t i = 0; i < s.batch * s.m; ++i) {
    A* const row = out.data() + i * s.n;
    const A* const matrix = b.data() + i / s.m * s.k * s.n;
    for (int64_t k = 0; k < s.k; ++k) {
      const A left = a[static_cast<size_t>(i * s.k + k)];
      const A* const right = matrix + k * s.n;
      for (int64_t j = 0; j < s.n; ++j) {
        if constexpr (std::is_same_v<A, uint8_t>)
          row[j] = row[j] | (left & right[j]);
        else
          row[j] += multiply_elements(left, right[j]);
      }
    }
  }
  return out;
}

}  // namespace

// Floats are multiplied and summed in double and rounded once: more exact than any fast kernel, and
// the same bits on integers that are exact. Integers wrap in 64 bits, pred is the "or" of "and"s.
Value evaluate_dot(const EvalContext& context) {
  const Array lhs = product_operand(context.operands[0].array, context.node.shape.dtype);
  const Array rhs = product_operand(context.operands[1].array, context.node.shape.dtype);
  const DotDims& dims = context.node.attrs.dot;
  const Dims lhs_free = free_dims(lhs.shape().rank(), dims.lhs_batch, dims.lhs_contracting);
  const Dims rhs_free = free_dims(rhs.shape().rank(), dims.rhs_batch, dims.rhs_contracting);
  const Sizes sizes{sizes_product(lhs, dims.lhs_batch), sizes_product(lhs, lhs_free),
                    sizes_product(rhs, rhs_free), sizes_product(lhs, dims.lhs_contracting)};
  const Array result(context.node.shape);
  if (result.size() == 0) return {result, {}, false};
  visit_product_accumulator(context.node, [&](auto accumulator) {
    using A = typename decltype(accumulator)::type;
    const std::vector<A> a =
        pack_side<A>(lhs, joined(dims.lhs_batch, lhs_free, dims.lhs_contracting));
    const std::vector<A> b =
        pack_side<A>(rhs, joined(dims.rhs_batch, dims.rhs_contracting, rhs_free));
    const std::vector<A> sums = multiply(sizes, a, b);
    from_accumulators(sums, result);
  });
  return {result, {}, false};
}

}  // namespace gspmd
