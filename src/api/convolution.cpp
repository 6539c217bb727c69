#include "gspmd/api/convolution.h"

#include <algorithm>
#include <array>

#include "api/body.h"
#include "api/emit.h"

namespace gspmd {

using namespace detail;

Padding::Padding(Rule rule) : rule_(rule) {}
Padding::Padding(Amounts amounts) : amounts_(std::move(amounts)), given_(true) {}
Padding::Padding(std::initializer_list<std::pair<int64_t, int64_t>> amounts)
    : amounts_(amounts), given_(true) {}
Padding::Padding(const Padding& other) = default;
Padding::Padding(Padding&& other) noexcept = default;
Padding& Padding::operator=(const Padding& other) = default;
Padding& Padding::operator=(Padding&& other) noexcept = default;
Padding::~Padding() = default;

namespace {

// Places of the letters of one array of a convolution.
struct Letters {
  int64_t first = 0, second = 0;  // batch and features, or the kernel's features
  Dims spatial;                   // in the order of the input's spatial letters
};

struct Layout {
  Letters input, kernel, output;
};

std::array<std::string_view, 3> parts_of(std::string_view layout) {
  const size_t comma = layout.find(',');
  const size_t arrow = layout.find("->");
  if (comma == std::string_view::npos || arrow == std::string_view::npos || comma > arrow)
    call_error("layout \"{}\" has not three parts; write it like \"NHWC,HWIO->NHWC\"", layout);
  return {layout.substr(0, comma), layout.substr(comma + 1, arrow - comma - 1),
          layout.substr(arrow + 2)};
}

// The spatial letters of one part.
std::string spatial_of(std::string_view part, char first, char second, std::string_view layout) {
  std::string spatial;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part.find(part[i], i + 1) != std::string_view::npos)
      call_error("letter '{}' stands twice in \"{}\" of layout \"{}\"; name each dim once", part[i],
                 part, layout);
    if (part[i] != first && part[i] != second) spatial += part[i];
  }
  if (spatial.size() + 2 != part.size())
    call_error(
        "\"{}\" of layout \"{}\" lacks {} or {}; input and result have N and C, the kernel "
        "I and O",
        part, layout, first, second);
  return spatial;
}

Letters letters_of(std::string_view part, char first, char second, const std::string& spatial,
                   std::string_view layout) {
  const std::string own = spatial_of(part, first, second, layout);
  if (!std::is_permutation(own.begin(), own.end(), spatial.begin(), spatial.end()))
    call_error(
        "\"{}\" of layout \"{}\" has the spatial letters \"{}\", the input \"{}\"; they must "
        "be the same",
        part, layout, own, spatial);
  Letters letters;
  letters.first = static_cast<int64_t>(part.find(first));
  letters.second = static_cast<int64_t>(part.find(second));
  for (const char c : spatial) letters.spatial.push_back(static_cast<int64_t>(part.find(c)));
  return letters;
}

void check_rank(std::string_view part, const Node* x) {
  if (static_cast<int64_t>(part.size()) != x->rank())
    call_error("layout \"{}\" for {}, which has rank {}; give one letter per dim", part,
               describe(x), x->rank());
}

Layout layout_of(std::string_view text, const Node* x, const Node* kernel) {
  const auto [input, weights, output] = parts_of(text);
  check_rank(input, x);
  check_rank(weights, kernel);
  const std::string spatial = spatial_of(input, 'N', 'C', text);
  return {letters_of(input, 'N', 'C', spatial, text), letters_of(weights, 'I', 'O', spatial, text),
          letters_of(output, 'N', 'C', spatial, text)};
}

// `list`, or ones where it is empty; all at least 1.
Dims steps(const Dims& list, size_t count, const char* what) {
  if (list.empty()) return Dims(count, 1);
  if (list.size() != count)
    call_error("{} {} for {} dims that the window slides over; give one per dim", list.size(), what,
               count);
  for (const int64_t step : list)
    if (step < 1) call_error("{} {} are wrong; give 1 or more", what, dims_text(list));
  return list;
}

int64_t dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

// Sizes, strides and dilations are filled in; this adds the padding.
void pad_windows(std::vector<WindowDim>& windows, const Dims& sizes, const Padding& padding) {
  if (padding.given() && padding.amounts().size() != windows.size())
    call_error("{} paddings for {} dims that the window slides over; give one pair per dim",
               padding.amounts().size(), windows.size());
  for (size_t i = 0; i < windows.size(); ++i) {
    WindowDim& w = windows[i];
    if (padding.given()) {
      w.pad_low = padding.amounts()[i].first;
      w.pad_high = padding.amounts()[i].second;
    } else if (padding.rule() == Padding::same) {
      const int64_t size = dilated(sizes[i], w.base_dilation);
      const int64_t reach = dilated(w.size, w.window_dilation);
      const int64_t total =
          std::max<int64_t>((ceil_div(size, w.stride) - 1) * w.stride + reach - size, 0);
      w.pad_low = total / 2;
      w.pad_high = total - total / 2;
    }
  }
}

Dims sizes_of(const Node* x, const Dims& dims) {
  Dims sizes;
  for (const int64_t d : dims) sizes.push_back(x->dim(d));
  return sizes;
}

void check_features(const Node* x, const Node* kernel, const Layout& layout, int64_t groups,
                    int64_t batch_groups) {
  const int64_t in = x->dim(layout.input.second), out = kernel->dim(layout.kernel.second);
  const int64_t batch = x->dim(layout.input.first);
  if (groups < 1 || batch_groups < 1 || (groups > 1 && batch_groups > 1))
    call_error("groups {} and batch_groups {} are wrong; both are 1 or more, and one of them is 1",
               groups, batch_groups);
  if (in % groups != 0 || in / groups != kernel->dim(layout.kernel.first))
    call_error(
        "dim C of {} is {} and dim I of the kernel {} is {}; I must be C / groups, which "
        "are {}",
        describe(x), in, describe(kernel), kernel->dim(layout.kernel.first), groups);
  if (out % groups != 0 || out % batch_groups != 0 || batch % batch_groups != 0)
    call_error(
        "dim O of the kernel {} is {} and dim N of {} is {}; O must divide into groups {} "
        "and both into batch_groups {}",
        describe(kernel), out, describe(x), batch, groups, batch_groups);
}

Node* convolution(Node* x, Node* kernel, const Layout& layout, std::vector<WindowDim> window,
                  int64_t groups, int64_t batch_groups) {
  Attributes attrs;
  attrs.window = std::move(window);
  attrs.conv = ConvDims{layout.input.first,    layout.input.second,
                        layout.input.spatial,  layout.kernel.first,
                        layout.kernel.second,  layout.kernel.spatial,
                        layout.output.first,   layout.output.second,
                        layout.output.spatial, groups,
                        batch_groups};
  return emit(x->parent(), Opcode::convolution, {x, kernel}, std::move(attrs),
              Shape(x->shape.dtype, {}));
}

std::vector<WindowDim> kernel_windows(const Node* kernel, const Layout& layout, const Dims& strides,
                                      const Dims& dilation, const Dims& input_dilation) {
  std::vector<WindowDim> windows(layout.kernel.spatial.size());
  for (size_t i = 0; i < windows.size(); ++i) {
    windows[i].size = kernel->dim(layout.kernel.spatial[i]);
    windows[i].stride = strides[i];
    windows[i].window_dilation = dilation[i];
    windows[i].base_dilation = input_dilation[i];
    if (windows[i].size == 0)
      call_error("dim {} of the kernel {} has size 0; give 1 or more", layout.kernel.spatial[i],
                 describe(kernel));
  }
  return windows;
}

std::pair<Node*, Node*> conv_operands(const Operand& x, const Operand& kernel) {
  const auto nodes = nodes_of(x, kernel);
  check_needs(nodes.first, Needs::number);
  return nodes;
}

}  // namespace

Tensor conv(Operand x, Operand kernel, std::string_view layout, const ConvOptions& options) {
  return call("conv", x.site(), [&] {
    const auto [input, weights] = conv_operands(x, kernel);
    const Layout dims = layout_of(layout, input, weights);
    check_features(input, weights, dims, options.groups, options.batch_groups);
    const size_t count = dims.input.spatial.size();
    auto windows = kernel_windows(weights, dims, steps(options.strides, count, "strides"),
                                  steps(options.dilation, count, "dilations"),
                                  steps(options.input_dilation, count, "input dilations"));
    pad_windows(windows, sizes_of(input, dims.input.spatial), options.padding);
    return tensor_of(convolution(input, weights, dims, std::move(windows), options.groups,
                                 options.batch_groups));
  });
}

namespace {

// What a convolution of this window and stride has to be padded by to undo one padded by `rule`.
void pad_transposed(WindowDim& w, int64_t stride, Padding::Rule rule) {
  const int64_t reach = dilated(w.size, w.window_dilation);
  int64_t total = reach + stride - 2;
  w.pad_low = reach - 1;
  if (rule == Padding::valid)
    total += std::max<int64_t>(reach - stride, 0);
  else if (stride <= reach - 1)
    w.pad_low = ceil_div(total, 2);
  w.pad_high = total - w.pad_low;
}

}  // namespace

Tensor conv_transpose(Operand x, Operand kernel, std::string_view layout,
                      const ConvTransposeOptions& options) {
  return call("conv_transpose", x.site(), [&] {
    auto [input, weights] = conv_operands(x, kernel);
    Layout dims = layout_of(layout, input, weights);
    const size_t count = dims.input.spatial.size();
    if (options.transpose_kernel) {
      weights = reverse_node(weights, dims.kernel.spatial);
      std::swap(dims.kernel.first, dims.kernel.second);
    }
    check_features(input, weights, dims, 1, 1);
    const Dims strides = steps(options.strides, count, "strides");
    auto windows = kernel_windows(weights, dims, steps({}, count, "strides"),
                                  steps(options.dilation, count, "dilations"), strides);
    if (options.padding.given())
      pad_windows(windows, {}, options.padding);
    else
      for (size_t i = 0; i < count; ++i)
        pad_transposed(windows[i], strides[i], options.padding.rule());
    return tensor_of(convolution(input, weights, dims, std::move(windows), 1, 1));
  });
}

namespace {

// A window over all dims of x.
std::vector<WindowDim> windows_over(const Node* x, const Dims& sizes,
                                    const WindowOptions& options) {
  const size_t rank = x->dims().size();
  if (sizes.size() != rank)
    call_error("{} window sizes for {}, which has rank {}; give one per dim", sizes.size(),
               describe(x), rank);
  for (const int64_t size : sizes)
    if (size < 1) call_error("window sizes {} are wrong; give 1 or more", dims_text(sizes));
  const Dims strides = steps(options.strides, rank, "strides");
  const Dims base = steps(options.base_dilation, rank, "base dilations");
  const Dims dilation = steps(options.window_dilation, rank, "window dilations");
  std::vector<WindowDim> windows(rank);
  for (size_t i = 0; i < rank; ++i) {
    windows[i].size = sizes[i];
    windows[i].stride = strides[i];
    windows[i].base_dilation = base[i];
    windows[i].window_dilation = dilation[i];
  }
  pad_windows(windows, x->dims(), options.padding);
  return windows;
}

Node* window_reduction(Node* x, Node* init, std::vector<WindowDim> windows, Computation* combiner) {
  Attributes attrs;
  attrs.window = std::move(windows);
  return emit(x->parent(), Opcode::reduce_window, {x, init}, std::move(attrs), {}, {combiner});
}

Node* window_reduction(Node* x, const std::vector<WindowDim>& windows, Combiner combiner) {
  Computation& c = x->parent();
  const DType dtype = x->shape.dtype;
  return window_reduction(x, hlo::scalar(c, dtype, combiner_identity(combiner, dtype)), windows,
                          binary_computation(c.module(), combiner_opcode(combiner), dtype));
}

// The window of a pool over all dims of x.
std::vector<WindowDim> pool_windows(const Node* x, const Dims& window, const PoolOptions& options) {
  std::string layout(options.layout);
  if (layout.empty()) {
    if (x->rank() < 2)
      call_error("{} has rank {}; a pool needs a batch and a feature dim, N, spatial dims, C",
                 describe(x), x->rank());
    layout.assign(x->dims().size(), 'C');
    for (size_t i = 0; i + 1 < layout.size(); ++i)
      layout[i] = i == 0 ? 'N' : static_cast<char>('a' + i);
  }
  check_rank(layout, x);
  const std::string spatial = spatial_of(layout, 'N', 'C', layout);
  const Dims dims = letters_of(layout, 'N', 'C', spatial, layout).spatial;
  if (window.size() != dims.size())
    call_error("{} window sizes for the {} spatial dims of {}; give one each", window.size(),
               dims.size(), describe(x));
  const Dims strides = steps(options.strides, dims.size(), "strides");
  const Dims dilation = steps(options.dilation, dims.size(), "dilations");
  std::vector<WindowDim> slid(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (window[i] < 1) call_error("window sizes {} are wrong; give 1 or more", dims_text(window));
    slid[i].size = window[i];
    slid[i].stride = strides[i];
    slid[i].window_dilation = dilation[i];
  }
  pad_windows(slid, sizes_of(x, dims), options.padding);
  std::vector<WindowDim> windows(x->dims().size());
  for (size_t i = 0; i < dims.size(); ++i) windows[static_cast<size_t>(dims[i])] = slid[i];
  return windows;
}

}  // namespace

Tensor reduce_window(Operand x, Operand init, const ScalarFunction& f, Dims window,
                     const WindowOptions& options) {
  Node* node = call("reduce_window", x.site(), [&] { return node_of(x); });
  Computation* combiner = scalar_computation("reduce_window", x.site(), node->shape.dtype, f);
  return call("reduce_window", x.site(), [&] {
    auto windows = windows_over(node, window, options);
    return tensor_of(
        window_reduction(node, initial_value(init, node), std::move(windows), combiner));
  });
}

Tensor max_pool(Operand x, Dims window, const PoolOptions& options) {
  return call("max_pool", x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, Needs::real);
    return tensor_of(window_reduction(node, pool_windows(node, window, options), Combiner::max));
  });
}

Tensor avg_pool(Operand x, Dims window, const PoolOptions& options) {
  return call("avg_pool", x.site(), [&] {
    Node* node = node_of(x);
    check_needs(node, Needs::analytic);
    const auto windows = pool_windows(node, window, options);
    Node* sums = window_reduction(node, windows, Combiner::sum);
    if (!options.count_include_pad)
      return tensor_of(divide(sums, window_reduction(splat_like(node, 1), windows, Combiner::sum)));
    double count = 1;
    for (const int64_t size : window) count *= static_cast<double>(size);
    return tensor_of(divide(sums, count));
  });
}

}  // namespace gspmd
