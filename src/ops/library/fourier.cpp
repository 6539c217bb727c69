// Fourier transforms by DUCC, as JAX calls it: the first operand describes them, a table of
// FlatBuffers, the second one is transformed.

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstring>

#include "gspmd/base/error.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/factors.h"
#include "ops/common/numeric.h"
#include "ops/library/library.h"

namespace gspmd::library {
namespace {

using Complex = std::complex<double>;

constexpr std::string_view kStatic = "ducc_fft", kDynamic = "dynamic_ducc_fft";

// A table of FlatBuffers: fields by number, at offsets that a second table lists. What lies outside
// of the bytes reads as absent.
class TransformTable {
 public:
  explicit TransformTable(std::span<const std::byte> bytes) : bytes_(bytes) {
    table_ = read<uint32_t>(0).value_or(0);
    fields_ = int64_t{table_} - read<int32_t>(table_).value_or(0);
  }
  template <class T>
  T number(int64_t field, T otherwise) const {
    const int64_t at = place(field);
    return at == 0 ? otherwise : read<T>(at).value_or(otherwise);
  }
  Dims list(int64_t field) const {
    const int64_t at = place(field);
    if (at == 0) return {};
    const int64_t start = at + read<uint32_t>(at).value_or(0);
    const auto count = static_cast<int64_t>(read<uint32_t>(start).value_or(0));
    Dims values;
    for (int64_t i = 0; i < count; ++i) {
      const auto value = read<uint32_t>(start + 4 + 4 * i);
      if (!value) break;
      values.push_back(*value);
    }
    return values;
  }

 private:
  template <class T>
  std::optional<T> read(int64_t at) const {
    if (at < 0 || at + static_cast<int64_t>(sizeof(T)) > std::ssize(bytes_)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  int64_t place(int64_t field) const {
    const int64_t entry = 4 + 2 * field;
    if (entry >= read<uint16_t>(fields_).value_or(0)) return 0;
    const uint16_t offset = read<uint16_t>(fields_ + entry).value_or(0);
    return offset == 0 ? 0 : table_ + offset;
  }

  std::span<const std::byte> bytes_;
  int64_t table_ = 0, fields_ = 0;
};

struct Transform {
  Dims axes;  // in order; the last one is the one that is halved
  bool forward = false;
  double scale = 1;
  std::string problem;  // why it cannot run, empty: it can
};

Transform transform_of(const Node& node, const Array& descriptor) {
  Transform transform;
  const TransformTable table(descriptor.bytes());
  const bool is_static = node.attrs.custom_call_target == kStatic;
  transform.axes = table.list(is_static ? 5 : 3);
  transform.forward = table.number<uint8_t>(is_static ? 6 : 4, 0) != 0;
  transform.scale = is_static ? table.number<double>(7, 0) : 1;
  const Shape& x = node.operand(1)->shape;
  Dims dims = x.dims;
  Dims sorted = transform.axes;
  std::sort(sorted.begin(), sorted.end());
  const bool valid = !sorted.empty() && sorted.back() < x.rank() &&
                     std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  if (!valid) {
    transform.problem = fmt::format("its description transforms dims {} of {}",
                                    braces(transform.axes), to_string(x));
    return transform;
  }
  const auto last = static_cast<size_t>(transform.axes.back());
  const bool from_real = !is_complex(x.dtype), to_real = !is_complex(node.shape.dtype);
  if (from_real) dims[last] = dims[last] / 2 + 1;
  const int64_t length = node.shape.is_tuple || node.rank() != x.rank() ? 0 : node.shape.dims[last];
  if (to_real) dims[last] = dims[last] == length / 2 + 1 ? length : -1;
  if (node.shape.is_tuple || node.shape.dims != dims || (from_real && to_real))
    transform.problem = fmt::format("{} over dims {} gives {}", to_string(x),
                                    braces(transform.axes), to_string(node.shape));
  return transform;
}

// What is wrong with the operands, or "".
std::string fourier_problem(const Node& node) {
  const auto has_type = [](const Shape& shape) {
    return !shape.is_tuple && (shape.dtype == DType::f32 || shape.dtype == DType::f64 ||
                               shape.dtype == DType::c64 || shape.dtype == DType::c128);
  };
  if (node.operands().size() < 2 || node.operand(0)->shape.is_tuple ||
      node.operand(0)->shape.dtype != DType::u8)
    return "its first operand is a description in bytes, u8[n]";
  if (!has_type(node.operand(1)->shape) || !has_type(node.shape))
    return fmt::format("{} becomes {}; f32, f64, c64 or c128 is transformed",
                       to_string(node.operand(1)->shape), to_string(node.shape));
  return "";
}

FactorRule fourier_factors(const Node& node) {
  FactorRule rule = whole_factors(node);
  if (!fourier_problem(node).empty() || node.operand(0)->attrs.literal.empty()) return rule;
  const Transform transform = transform_of(node, node.operand(0)->attrs.literal);
  if (!transform.problem.empty()) return rule;
  rule.scalars_start = false;
  for (int64_t d = 0; d < node.rank(); ++d) {
    if (contains(transform.axes, d)) continue;
    const auto at = static_cast<size_t>(d);
    rule.operands[1][at] = rule.results[0][at] = add_factor(rule, node.dim(d));
  }
  return rule;
}

struct Grid {
  Dims dims;
  std::vector<Complex> values;
};

// One axis, by the library's own transform of lines.
Grid along(const Grid& grid, int64_t axis, const char* type, int64_t length, int64_t size) {
  const auto a = static_cast<size_t>(axis);
  const int64_t n = grid.dims[a];
  int64_t inner = 1;
  for (size_t d = a + 1; d < grid.dims.size(); ++d) inner *= grid.dims[d];
  const int64_t lines = n == 0 ? 0 : std::ssize(grid.values) / n;
  const std::string_view name = type;
  Module scratch("fft");
  Computation* const body = scratch.add_computation("fft");
  Node* const x = body->append(Opcode::parameter,
                               Shape(name == "RFFT" ? DType::f64 : DType::c128, {lines, n}), {});
  Attributes attrs;
  attrs.scalar.edit().fft_type = name;
  attrs.dimensions = {length};
  const Node* const fft = body->append(
      Opcode::fft, Shape(name == "IRFFT" ? DType::f64 : DType::c128, {lines, size}), {x}, attrs);
  Array in(x->shape);
  const auto place = [&](int64_t line, int64_t i, int64_t count) {
    return static_cast<size_t>((line / inner * count + i) * inner + line % inner);
  };
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t i = 0; i < n; ++i) {
      const Complex value = grid.values[place(line, i, n)];
      const auto to = static_cast<size_t>(line * n + i);
      if (name == "RFFT")
        in.data<double>()[to] = value.real();
      else
        in.data<Complex>()[to] = value;
    }
  const Value values[] = {{in, {}, false}};
  const CallComputation none;
  const Array out = op_info(Opcode::fft).evaluate({*fft, values, none}).array;
  Grid result;
  result.dims = grid.dims;
  result.dims[a] = size;
  result.values.resize(static_cast<size_t>(lines * size));
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t i = 0; i < size; ++i) {
      const auto from = static_cast<size_t>(line * size + i);
      result.values[place(line, i, size)] =
          name == "IRFFT" ? Complex(out.data<double>()[from], 0) : out.data<Complex>()[from];
    }
  return result;
}

Grid grid_of(const Array& array) {
  Grid grid{array.dims(), std::vector<Complex>(static_cast<size_t>(array.size()))};
  visit_number(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> in = array.data<T>();
    for (size_t i = 0; i < in.size(); ++i) grid.values[i] = convert_element<Complex>(in[i]);
  });
  return grid;
}

// Backwards nothing is divided by the length; `scale` says all there is.
Grid transformed(Grid grid, const Transform& transform, bool from_real, bool to_real,
                 const Dims& result) {
  double scale = transform.scale;
  for (size_t i = 0; i < transform.axes.size(); ++i) {
    const bool last = i == 0 && from_real;
    // Real operands are halved first, real results are made last.
    const size_t at = from_real ? transform.axes.size() - 1 - i : i;
    const int64_t axis = transform.axes[at];
    const bool halved = at + 1 == transform.axes.size();
    const int64_t n = grid.dims[static_cast<size_t>(axis)];
    const int64_t length = halved && to_real ? result[static_cast<size_t>(axis)] : n;
    const char* const type = last                ? "RFFT"
                             : halved && to_real ? "IRFFT"
                             : transform.forward ? "FFT"
                                                 : "IFFT";
    grid = along(grid, axis, type, length, last ? n / 2 + 1 : length);
    if (!transform.forward || (halved && to_real)) scale *= static_cast<double>(length);
  }
  for (Complex& value : grid.values) value *= scale;
  return grid;
}

Value evaluate_fourier(const EvalContext& context) {
  const Node& node = context.node;
  std::string problem = fourier_problem(node);
  Transform transform;
  if (problem.empty()) {
    transform = transform_of(node, context.operands[0].array);
    problem = transform.problem;
  }
  if (!problem.empty())
    user_error("custom-call: \"{}\" of target \"{}\" cannot run: {}", node.name(),
               *node.attrs.custom_call_target, problem);
  if (node.attrs.custom_call_target == kDynamic)
    for (const Value& value : context.operands)
      if (value.array.shape().rank() == 0 && is_floating(value.array.dtype()))
        transform.scale = value.array.at(0);
  const Array result(Shape(node.shape.dtype, node.shape.dims));
  if (result.size() == 0) return {result, {}, false};
  const Array& x = context.operands[1].array;
  const Grid grid = transformed(grid_of(x), transform, !is_complex(x.dtype()),
                                !is_complex(result.dtype()), result.dims());
  visit_number(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < out.size(); ++i) out[i] = convert_element<T>(grid.values[i]);
  });
  return {result, {}, false};
}

const OpInfo kFourierRow{.opcode = Opcode::custom_call,
                         .operands = {1, -1},
                         .infer =
                             [](const Node& node) {
                               for (const Shape& leaf : leaf_shapes(node.shape))
                                 checked_size(node, leaf);
                               return node.shape;
                             },
                         .factors = fourier_factors,
                         .evaluate = evaluate_fourier,
                         .completion = kBatchCompletion,
                         .on_part = constraints_on_part,
                         .batch = batch_in_loop};

}  // namespace

const OpInfo* fourier_row(const Node& custom_call) {
  const std::string& target = custom_call.attrs.custom_call_target;
  return target == kStatic || target == kDynamic ? &kFourierRow : nullptr;
}

}  // namespace gspmd::library
