#include "stablehlo/ops/windows.h"

#include <algorithm>

namespace gspmd::stablehlo {
namespace {

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// "[b, 0, 1, f]": which dim is which part.
struct Labels {
  int64_t first = -1, second = -1;  // batch and feature; of a kernel input and output feature
  Dims spatial;
};

Labels read_labels(OpLowering& op, Cursor& cursor, char first, char second) {
  Labels labels;
  std::vector<std::pair<int64_t, int64_t>> spatial;  // number, dim
  cursor.expect("[", "before the dims of a convolution");
  int64_t dim = 0;
  while (!cursor.accept("]")) {
    if (dim > 0) cursor.expect(",", "between the dims of a convolution");
    const size_t at = cursor.position();
    if (is_digit(cursor.peek())) {
      spatial.emplace_back(cursor.integer("a spatial dim"), dim);
    } else if (cursor.accept("?")) {
      // a dim that takes no part
    } else {
      const std::string_view word = cursor.word("a dim of a convolution");
      int64_t& place = word[0] == first ? labels.first : labels.second;
      if (word.size() != 1 || (word[0] != first && word[0] != second) || place >= 0)
        cursor.fail(at, "\"{}\" is no dim here, or stands twice; {}, {} and numbers are", word,
                    first, second);
      place = dim;
    }
    ++dim;
  }
  std::sort(spatial.begin(), spatial.end());
  for (size_t i = 0; i < spatial.size(); ++i) {
    if (spatial[i].first != static_cast<int64_t>(i)) op.fail("spatial dim {} is missing", i);
    labels.spatial.push_back(spatial[i].second);
  }
  if (labels.first < 0 || labels.second < 0) op.fail("a dim {} or {} is missing", first, second);
  return labels;
}

ConvDims from_labels(const Labels& input, const Labels& kernel, const Labels& output) {
  ConvDims conv;
  conv.input_batch = input.first;
  conv.input_feature = input.second;
  conv.input_spatial = input.spatial;
  conv.kernel_input_feature = kernel.first;
  conv.kernel_output_feature = kernel.second;
  conv.kernel_spatial = kernel.spatial;
  conv.output_batch = output.first;
  conv.output_feature = output.second;
  conv.output_spatial = output.spatial;
  return conv;
}

// The older form, "raw input_batch_dimension = 0, ...".
ConvDims from_fields(OpLowering& op, const Attribute& attribute) {
  ConvDims conv;
  for (const NamedAttribute& field : op.fields(attribute)) {
    const Dims values = op.integers_of(field.value, field.name);
    const int64_t one = values.empty() ? 0 : values[0];
    if (field.name == "input_batch_dimension")
      conv.input_batch = one;
    else if (field.name == "input_feature_dimension")
      conv.input_feature = one;
    else if (field.name == "input_spatial_dimensions")
      conv.input_spatial = values;
    else if (field.name == "kernel_input_feature_dimension")
      conv.kernel_input_feature = one;
    else if (field.name == "kernel_output_feature_dimension")
      conv.kernel_output_feature = one;
    else if (field.name == "kernel_spatial_dimensions")
      conv.kernel_spatial = values;
    else if (field.name == "output_batch_dimension")
      conv.output_batch = one;
    else if (field.name == "output_feature_dimension")
      conv.output_feature = one;
    else if (field.name == "output_spatial_dimensions")
      conv.output_spatial = values;
    else
      op.fail("dimension_numbers has no {}", field.name);
  }
  return conv;
}

ConvDims dimension_numbers(OpLowering& op) {
  const Attribute& attribute = op.attribute("dimension_numbers");
  if (attribute.kind != AttributeKind::dialect)
    op.fail("dimension_numbers is no #stablehlo.conv<..>");
  Cursor cursor = op.lowering().cursor().sub(attribute.body, attribute.body_end);
  if (cursor.peek() != '[') return from_fields(op, attribute);
  const Labels input = read_labels(op, cursor, 'b', 'f');
  cursor.expect("x", "between the dims of input and kernel");
  const Labels kernel = read_labels(op, cursor, 'i', 'o');
  cursor.expect("->", "between the dims of kernel and output");
  return from_labels(input, kernel, read_labels(op, cursor, 'b', 'f'));
}

}  // namespace

std::vector<WindowDim> window_of(const OpLowering& op, const Dims& sizes, const WindowNames& names,
                                 const std::vector<std::pair<int64_t, int64_t>>& padding) {
  std::vector<WindowDim> window(sizes.size());
  const auto list = [&](std::string_view name, int64_t standard) {
    std::optional<Dims> values = name.empty() ? std::nullopt : op.maybe_integers(name);
    if (!values || (values->empty() && !sizes.empty())) values = Dims(sizes.size(), standard);
    if (values->size() != sizes.size())
      op.fail("{} has {} numbers for {} dims", name, values->size(), sizes.size());
    return *values;
  };
  const Dims strides = list(names.strides, 1), base = list(names.base_dilations, 1),
             dilations = list(names.window_dilations, 1), reversal = list(names.reversal, 0);
  if (!padding.empty() && padding.size() != sizes.size())
    op.fail("padding has {} pairs for {} dims", padding.size(), sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    WindowDim& dim = window[d];
    dim.size = sizes[d];
    dim.stride = strides[d];
    dim.base_dilation = base[d];
    dim.window_dilation = dilations[d];
    dim.reversal = reversal[d] != 0;
    if (padding.empty()) continue;
    dim.pad_low = padding[d].first;
    dim.pad_high = padding[d].second;
  }
  return window;
}

std::vector<std::pair<int64_t, int64_t>> padding_of(const OpLowering& op, size_t dims) {
  if (op.find("padding") == nullptr) return {};
  std::vector<std::pair<int64_t, int64_t>> pairs = op.pairs("padding");
  // "dense<0> : tensor<2x2xi64>" of no dims, and the like.
  if (pairs.size() != dims) op.fail("padding has {} pairs for {} dims", pairs.size(), dims);
  return pairs;
}

void add_precision(const OpLowering& op, Attributes& attrs) {
  const Attribute* const precision = op.find("precision_config");
  if (precision == nullptr) return;
  std::string text;
  bool is_default = true;
  for (const Attribute& one : precision->list) {
    constexpr std::string_view kWords[] = {"DEFAULT", "HIGH", "HIGHEST", "PACKED_NIBBLE"};
    if (std::find(std::begin(kWords), std::end(kWords), one.text) == std::end(kWords))
      op.fail("precision_config is a list of DEFAULT, HIGH, HIGHEST");
    text += fmt::format("{}{}", text.empty() ? "" : ",", lower_case(one.text));
    is_default = is_default && one.text == "DEFAULT";
  }
  if (!is_default) attrs.other["operand_precision"] = fmt::format("{{{}}}", text);
}

void add_algorithm(const OpLowering& op, Attributes& attrs) {
  const Attribute* const algorithm = op.find("algorithm");
  if (algorithm == nullptr) return;
  std::string lhs, rhs, accumulation;
  int64_t operations = 1;
  bool imprecise = false;
  for (const NamedAttribute& field : op.fields(*algorithm)) {
    const std::string type = field.value.kind == AttributeKind::type
                                 ? std::string(field.value.type->text)
                                 : field.value.text;
    if (field.name == "lhs_precision_type") lhs = lower_case(type);
    if (field.name == "rhs_precision_type") rhs = lower_case(type);
    if (field.name == "accumulation_type") accumulation = lower_case(type);
    if (field.name == "num_primitive_operations") operations = field.value.integer;
    if (field.name == "allow_imprecise_accumulation") imprecise = field.value.integer != 0;
  }
  struct Row {
    std::string_view type, accumulation;
    Dims operations;
  };
  const Row rows[] = {{"f16", "f16", {1}},     {"f16", "f32", {1}},
                      {"bf16", "bf16", {1}},   {"bf16", "f32", {1, 3, 6, 9}},
                      {"tf32", "f32", {1, 3}}, {"f32", "f32", {1}},
                      {"f64", "f64", {1}}};
  if (lhs.starts_with("f8") && rhs.starts_with("f8") && accumulation == "f32" && operations == 1) {
    attrs.scalar.edit().algorithm =
        imprecise ? "dot_any_f8_any_f8_f32_fast_accum" : "dot_any_f8_any_f8_f32";
    return;
  }
  for (const Row& row : rows) {
    const bool fits =
        lhs == row.type && rhs == row.type && accumulation == row.accumulation && !imprecise &&
        std::find(row.operations.begin(), row.operations.end(), operations) != row.operations.end();
    if (!fits) continue;
    attrs.scalar.edit().algorithm = fmt::format("dot_{}_{}_{}", lhs, rhs, accumulation);
    if (operations > 1) attrs.scalar.edit().algorithm += fmt::format("_x{}", operations);
    return;
  }
  op.fail("the algorithm of {} x {} -> {} in {} operations is not known", lhs, rhs, accumulation,
          operations);
}

Attributes convolution_attributes(OpLowering& op,
                                  const std::vector<std::pair<int64_t, int64_t>>& padding) {
  Attributes attrs;
  ConvDims conv = dimension_numbers(op);
  conv.feature_group_count = op.integer("feature_group_count", 1);
  conv.batch_group_count = op.integer("batch_group_count", 1);
  Dims sizes;
  const Shape& kernel = op.operand(1)->shape;
  for (const int64_t d : conv.kernel_spatial) {
    if (d < 0 || d >= kernel.rank()) op.fail("dim {} of the kernel {}", d, to_string(kernel));
    sizes.push_back(kernel.dims[static_cast<size_t>(d)]);
  }
  attrs.window = window_of(
      op, sizes, {"window_strides", "lhs_dilation", "rhs_dilation", "window_reversal"}, padding);
  attrs.conv = std::move(conv);
  add_precision(op, attrs);
  return attrs;
}

}  // namespace gspmd::stablehlo
