#include "gspmd/api/fft.h"

#include <algorithm>
#include <cmath>

#include "api/emit.h"

namespace gspmd {

using namespace detail;

namespace {

enum class Direct : uint8_t { forward, inverse };

// A transform along the dims `axes` of sizes `sizes`, of the whole signal.
struct Transform {
  bool real = false;  // rfft and irfft: the last dim is halved
  Direct direct = Direct::forward;
  std::vector<int64_t> axes;
  std::vector<int64_t> sizes;
  FftNorm norm = FftNorm::backward;
};

Node* as_complex(Node* x) {
  check_needs(x, Needs::number);
  if (is_complex(x->shape.dtype)) return x;
  const DType dtype = x->shape.dtype == DType::f64 ? DType::c128 : DType::c64;
  return hlo::convert(x, dtype);
}

Node* as_real(Node* x) {
  check_needs(x, Needs::real);
  const DType dtype = x->shape.dtype;
  return dtype == DType::f32 || dtype == DType::f64 ? x : hlo::convert(x, DType::f32);
}

// The first `size` elements of a dim, zeros behind where there are fewer.
Node* resized(Node* x, int64_t axis, int64_t size) {
  if (x->dim(axis) == size) return x;
  std::vector<PaddingDim> padding(x->dims().size());
  padding[static_cast<size_t>(axis)].high = size - x->dim(axis);
  return hlo::pad(x, hlo::scalar(x->parent(), x->shape.dtype, 0), std::move(padding));
}

// One op: along the last dims, at most three.
Node* transform_last(Node* x, const char* type, const Dims& sizes) {
  Attributes attrs;
  attrs.scalar.edit().fft_type = type;
  attrs.dimensions = sizes;
  return emit(x->parent(), Opcode::fft, {x}, std::move(attrs));
}

// Dims `axes` last, in their order.
Dims order_with_last(int64_t rank, const Dims& axes) {
  Dims order;
  for (int64_t i = 0; i < rank; ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i);
  order.insert(order.end(), axes.begin(), axes.end());
  return order;
}

Node* transform_along(Node* x, const char* type, const Dims& axes, const Dims& sizes) {
  const Dims order = order_with_last(x->rank(), axes);
  if (std::is_sorted(order.begin(), order.end())) return transform_last(x, type, sizes);
  Dims back(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return hlo::transpose(transform_last(hlo::transpose(x, order), type, sizes), back);
}

// Complex transforms of any number of dims, three at a time from the last on.
Node* complex_transform(Node* x, Direct direct, const Dims& axes, const Dims& sizes) {
  const char* type = direct == Direct::forward ? "FFT" : "IFFT";
  for (size_t end = axes.size(); end > 0;) {
    const size_t begin = end > 3 ? end - 3 : 0;
    const auto part = [&](const Dims& list) {
      return Dims(list.begin() + static_cast<std::ptrdiff_t>(begin),
                  list.begin() + static_cast<std::ptrdiff_t>(end));
    };
    x = transform_along(x, type, part(axes), part(sizes));
    end = begin;
  }
  return x;
}

// What numpy divides by, beyond the 1 / n that the inverse has.
double scale_of(const Transform& t) {
  double n = 1;
  for (const int64_t size : t.sizes) n *= static_cast<double>(size);
  const bool inverse = t.direct == Direct::inverse;
  switch (t.norm) {
    case FftNorm::ortho:
      return inverse ? std::sqrt(n) : 1 / std::sqrt(n);
    case FftNorm::forward:
      return inverse ? n : 1 / n;
    default:
      return 1;
  }
}

Node* transformed(Node* x, const Transform& t) {
  x = t.real && t.direct == Direct::forward ? as_real(x) : as_complex(x);
  const size_t count = t.axes.size();
  for (size_t i = 0; i < count; ++i) {
    if (t.sizes[i] < 1)
      call_error("dim {} of {} would have {} elements transformed; give 1 or more", t.axes[i],
                 describe(x), t.sizes[i]);
    const bool halved = t.real && t.direct == Direct::inverse && i + 1 == count;
    x = resized(x, t.axes[i], halved ? t.sizes[i] / 2 + 1 : t.sizes[i]);
  }
  // The halved dim goes first on the way there and last on the way back.
  const Dims rest(t.axes.begin(), t.axes.end() - (t.real ? 1 : 0));
  const Dims rest_sizes(t.sizes.begin(), t.sizes.end() - (t.real ? 1 : 0));
  if (t.real && t.direct == Direct::forward)
    x = transform_along(x, "RFFT", {t.axes.back()}, {t.sizes.back()});
  x = complex_transform(x, t.direct, rest, rest_sizes);
  if (t.real && t.direct == Direct::inverse)
    x = transform_along(x, "IRFFT", {t.axes.back()}, {t.sizes.back()});
  const double scale = scale_of(t);
  return scale == 1 ? x : multiply(x, scale);
}

int64_t default_size(const Node* x, int64_t axis, bool halved) {
  return halved ? 2 * (x->dim(axis) - 1) : x->dim(axis);
}

Tensor along_one(const char* op, bool real, Direct direct, const Operand& x,
                 const FftOptions& options) {
  return call(op, x.site(), [&] {
    Node* node = node_of(x);
    const int64_t axis = checked_axis(options.axis, node);
    const int64_t size =
        options.n.value_or(default_size(node, axis, real && direct == Direct::inverse));
    return tensor_of(transformed(node, {real, direct, {axis}, {size}, options.norm}));
  });
}

// `last`: how many dims are transformed where none is named; 0: all.
Tensor along_several(const char* op, bool real, Direct direct, const Operand& x,
                     const FftnOptions& options, int64_t last) {
  return call(op, x.site(), [&] {
    Node* node = node_of(x);
    Transform t{real, direct, {}, options.s, options.norm};
    const int64_t count = !options.s.empty() && last == 0 ? std::ssize(options.s)
                          : last == 0                     ? node->rank()
                                                          : last;
    if (count > node->rank() || count == 0)
      call_error("{} dims of {}, which has rank {}, are transformed; give a tensor that has them",
                 count, describe(node), node->rank());
    for (const int64_t axis : options.axes) t.axes.push_back(checked_axis(axis, node));
    checked_axes(options.axes, node);
    if (t.axes.empty())
      for (int64_t i = node->rank() - count; i < node->rank(); ++i) t.axes.push_back(i);
    if (t.sizes.empty())
      for (size_t i = 0; i < t.axes.size(); ++i)
        t.sizes.push_back(default_size(
            node, t.axes[i], real && direct == Direct::inverse && i + 1 == t.axes.size()));
    if (t.sizes.size() != t.axes.size())
      call_error("s has {} sizes and axes {} dims; give one each", t.sizes.size(), t.axes.size());
    return tensor_of(transformed(node, t));
  });
}

}  // namespace

Tensor fft(Operand x, const FftOptions& options) {
  return along_one("fft", false, Direct::forward, x, options);
}
Tensor ifft(Operand x, const FftOptions& options) {
  return along_one("ifft", false, Direct::inverse, x, options);
}
Tensor rfft(Operand x, const FftOptions& options) {
  return along_one("rfft", true, Direct::forward, x, options);
}
Tensor irfft(Operand x, const FftOptions& options) {
  return along_one("irfft", true, Direct::inverse, x, options);
}
Tensor fftn(Operand x, const FftnOptions& options) {
  return along_several("fftn", false, Direct::forward, x, options, 0);
}
Tensor ifftn(Operand x, const FftnOptions& options) {
  return along_several("ifftn", false, Direct::inverse, x, options, 0);
}
Tensor rfftn(Operand x, const FftnOptions& options) {
  return along_several("rfftn", true, Direct::forward, x, options, 0);
}
Tensor irfftn(Operand x, const FftnOptions& options) {
  return along_several("irfftn", true, Direct::inverse, x, options, 0);
}
Tensor fft2(Operand x, const FftnOptions& options) {
  return along_several("fft2", false, Direct::forward, x, options, 2);
}
Tensor ifft2(Operand x, const FftnOptions& options) {
  return along_several("ifft2", false, Direct::inverse, x, options, 2);
}
Tensor rfft2(Operand x, const FftnOptions& options) {
  return along_several("rfft2", true, Direct::forward, x, options, 2);
}
Tensor irfft2(Operand x, const FftnOptions& options) {
  return along_several("irfft2", true, Direct::inverse, x, options, 2);
}

}  // namespace gspmd
