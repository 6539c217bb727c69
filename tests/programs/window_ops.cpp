// Ops over windows: convolution, reduce-window, select-and-scatter, cumulative sums.

#include "programs/builder.h"

namespace gspmd::testing {
namespace {

int64_t outputs_of(int64_t size, const WindowDim& w) {
  const int64_t base = size == 0 ? 0 : (size - 1) * w.base_dilation + 1;
  const int64_t window = (w.size - 1) * w.window_dilation + 1;
  const int64_t room = base + w.pad_low + w.pad_high - window;
  return room < 0 ? 0 : room / w.stride + 1;
}

// A window that leaves at least one output; `dilated`: of base and window.
WindowDim window_over(Builder& b, int64_t size, int64_t most, bool dilated) {
  for (int tries = 0; tries < 10; ++tries) {
    WindowDim w;
    w.size = b.draws.between(1, most);
    w.stride = b.draws.chance(40) ? b.draws.between(2, 3) : 1;
    w.pad_low = b.draws.between(-1, 3);
    w.pad_high = b.draws.between(-1, 3);
    if (dilated && b.draws.chance(30)) w.base_dilation = b.draws.between(2, 3);
    if (dilated && b.draws.chance(30)) w.window_dilation = 2;
    if (outputs_of(size, w) > 0 &&
        size + std::min<int64_t>(0, w.pad_low) + std::min<int64_t>(0, w.pad_high) > 0)
      return w;
  }
  return {};
}

Node* windows_reduced(Builder& b, Node* x) {
  if (x->rank() == 0 || !is_number(x->shape.dtype)) return nullptr;
  const DType dtype = x->shape.dtype;
  Attributes attrs;
  attrs.window.resize(x->dims().size());
  double count = 1;
  Dims dims = b.some_of(x->rank(), 60);
  if (dims.empty()) dims = {b.draws.below(x->rank())};
  for (const int64_t d : dims) {
    const WindowDim w = window_over(b, x->dim(d), 3, true);
    attrs.window.edit()[static_cast<size_t>(d)] = w;
    count *= double(w.size);
  }
  const bool sums = b.draws.chance(60);
  if (sums) x = b.fitting(x, largest(dtype) / (count + 1));
  const double bound = std::max(b.bound(x) * (sums ? count + 1 : 1), 7.0);
  Node* start = b.scalar(dtype, sums ? b.draws.below(2) * 3 : is_unsigned_integer(dtype) ? 0 : -7);
  return b.add(emit(b.c, Opcode::reduce_window, {x, start}, attrs, {},
                    {b.combiner(sums ? Opcode::add : Opcode::maximum, dtype)}),
               bound);
}

Node* cumulated(Builder& b, Node* x) {
  if (x->rank() == 0 || !is_number(x->shape.dtype)) return nullptr;
  const auto d = static_cast<size_t>(b.draws.below(x->rank()));
  const int64_t size = x->dim(int64_t(d));
  const bool sums = b.draws.chance(70);
  if (sums) x = b.fitting(x, largest(x->shape.dtype) / double(size + 1));
  Attributes attrs;
  attrs.window.resize(x->dims().size());
  WindowDim& window = attrs.window.edit()[d];
  window.size = size;
  (b.draws.chance(70) ? window.pad_low : window.pad_high) = size - 1;
  const double bound = std::max(b.bound(x) * (sums ? double(size) : 1), 7.0);
  const DType dtype = x->shape.dtype;
  Node* start = b.scalar(dtype, sums || is_unsigned_integer(dtype) ? 0 : -7);
  return b.add(emit(b.c, Opcode::reduce_window, {x, start}, attrs, {},
                    {b.combiner(sums ? Opcode::add : Opcode::maximum, dtype)}),
               bound);
}

Computation* ordering(Module& module, DType dtype, Direction direction) {
  Computation* c = module.add_computation("keeps");
  Node* x = hlo::parameter(*c, 0, Shape(dtype, {}));
  Node* y = hlo::parameter(*c, 1, Shape(dtype, {}));
  c->set_root(hlo::compare(x, y, direction));
  return c;
}

Node* selected_and_scattered(Builder& b, Node* x) {
  const DType dtype = x->shape.dtype;
  if (x->rank() == 0 || (dtype != DType::f32 && dtype != DType::s32)) return nullptr;
  Attributes attrs;
  attrs.window.resize(x->dims().size());
  Shape source = x->shape;
  for (const int64_t d : b.some_of(x->rank(), 60)) {
    WindowDim w = window_over(b, x->dim(d), 3, false);
    const int64_t outputs = outputs_of(x->dim(d), w);
    if (outputs == 0) return nullptr;
    attrs.window.edit()[static_cast<size_t>(d)] = w;
    source.dims[static_cast<size_t>(d)] = outputs;
  }
  Node* s = b.fitting(b.of_shape(source), 100);
  static const std::vector<Direction> directions{Direction::ge, Direction::gt, Direction::le,
                                                 Direction::lt, Direction::ne};
  Computation* keeps = ordering(b.c.module(), dtype, b.draws.one_of(directions));
  return b.add(emit(b.c, Opcode::select_and_scatter, {x, s, b.scalar(dtype, 0)}, attrs, {},
                    {keeps, b.combiner(Opcode::add, dtype)}),
               100 * 81);
}

struct Labels {
  ConvDims dims;
  Dims input, kernel;  // sizes in the order of the dims
};

// Where each part of a convolution of `spatial` dims stands in its arrays.
ConvDims places(Builder& b, int64_t spatial) {
  ConvDims dims;
  const auto deal = [&](int64_t& first, int64_t& second, Dims& rest) {
    Dims order = b.draws.chance(50) ? b.shuffled(spatial + 2) : Dims{};
    for (int64_t i = int64_t(order.size()); i < spatial + 2; ++i) order.push_back(i);
    first = order[0];
    second = order[1];
    rest.assign(order.begin() + 2, order.end());
  };
  deal(dims.input_batch, dims.input_feature, dims.input_spatial);
  deal(dims.kernel_input_feature, dims.kernel_output_feature, dims.kernel_spatial);
  deal(dims.output_batch, dims.output_feature, dims.output_spatial);
  return dims;
}

Node* convolved(Builder& b, Node* x) {
  if (x->rank() < 2 || x->rank() > 4) return nullptr;
  const DType dtype = x->shape.dtype;
  if (dtype != DType::f32 && dtype != DType::s32 && dtype != DType::bf16) return nullptr;
  const int64_t spatial = x->rank() - 2;
  Attributes attrs;
  ConvDims dims = places(b, spatial);
  const int64_t features = x->dim(dims.input_feature), batch = x->dim(dims.input_batch);
  const auto divisor = [&](int64_t n) {
    for (const int64_t d : {4, 3, 2})
      if (n % d == 0 && b.draws.chance(60)) return d;
    return int64_t(1);
  };
  if (b.draws.chance(30)) dims.feature_group_count = divisor(features);
  if (dims.feature_group_count == 1 && b.draws.chance(20)) dims.batch_group_count = divisor(batch);
  const int64_t groups = dims.feature_group_count * dims.batch_group_count;
  Dims kernel(static_cast<size_t>(spatial) + 2);
  kernel[static_cast<size_t>(dims.kernel_input_feature)] = features / dims.feature_group_count;
  kernel[static_cast<size_t>(dims.kernel_output_feature)] = groups * b.draws.between(1, 3);
  double count = double(features / dims.feature_group_count);
  for (size_t s = 0; s < static_cast<size_t>(spatial); ++s) {
    const int64_t size = x->dim(dims.input_spatial[s]);
    // A kernel as large as the image is that of a weight's gradient.
    const int64_t most = b.draws.chance(20) ? size + 1 : 3;
    WindowDim w = window_over(b, size, most, true);
    w.reversal = b.draws.chance(15);
    attrs.window.push_back(w);
    kernel[static_cast<size_t>(dims.kernel_spatial[s])] = w.size;
    count *= double(w.size);
  }
  const double limit = largest(dtype);
  Node* k =
      b.fitting(b.of_shape(Shape(dtype, kernel)), std::max(1.0, std::min(16.0, limit / count)));
  x = b.fitting(x, std::max(1.0, limit / (count * std::max(1.0, b.bound(k)))));
  const double bound = count * b.bound(x) * b.bound(k);
  if (bound > limit && is_floating(dtype)) return nullptr;
  attrs.conv = dims;
  return b.add(emit(b.c, Opcode::convolution, {x, k}, attrs, Shape(dtype, Dims(x->dims().size()))),
               bound);
}

}  // namespace

std::vector<Family> window_families() {
  return {{4, windows_reduced}, {2, cumulated}, {1, selected_and_scattered}, {5, convolved}};
}

}  // namespace gspmd::testing
