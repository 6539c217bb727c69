// Ops without regions as text.
#include <algorithm>

#include "gspmd/ops/sdy_rules.h"
#include "stablehlo/lowering.h"
#include "stablehlo/print/writer.h"
#include "stablehlo/text/dense.h"

namespace gspmd::stablehlo {
namespace {

// "stablehlo.add %0, %1 : T"; of different types "(A, B) -> C".
void write_elementwise(OpWriter& op, std::string_view name) {
  const Shape& shape = op.node().shape;
  bool same = true;
  for (const Node* operand : op.node().operands())
    same = same && operand->shape == shape && operand->shape.dynamic_dims == shape.dynamic_dims;
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}", name, operands), same ? type_text(shape) : op.function_type());
}

void write_convert(OpWriter& op, std::string_view name) {
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}", name, operands), op.function_type());
}

// "chlo.erf %0 : T -> T", "chlo.mulhi %0, %1 : T, T -> T".
void write_chlo(OpWriter& op, std::string_view name) {
  const std::string operands = op.operands();
  std::string types;
  for (const Node* operand : op.node().operands())
    types += (types.empty() ? "" : ", ") + type_text(operand->shape);
  op.custom(fmt::format("{} {}", name, operands), types + " -> " + op.result_types());
}

void write_complex(OpWriter& op, std::string_view name) {
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}", name, operands), type_text(op.node().shape));
}

// A scalar that HLO needs as an array.
const Node* scalar_of(const Node* node) {
  const bool folds = node->is(Opcode::broadcast) && node->frontend_attributes.contains(kImplicit) &&
                     node->operand(0)->rank() == 0;
  return folds ? node->operand(0) : node;
}

void write_compare(OpWriter& op, std::string_view name) {
  constexpr const char* kDirections[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  const Node& node = op.node();
  const Node* const zeros = node.operand(1);
  // Against zeros that were made for it: a conversion to i1.
  if (node.attrs.direction == Direction::ne && zeros->frontend_attributes.contains(kImplicit)) {
    const std::string x = op.operand(0);
    return op.custom(
        "stablehlo.convert " + x,
        fmt::format("({}) -> {}", type_text(node.operand(0)->shape), type_text(node.shape)));
  }
  const DType dtype = node.operand(0)->shape.dtype;
  const std::string own = is_floating(dtype) || is_complex(dtype) ? "FLOAT"
                          : is_signed_integer(dtype)              ? "SIGNED"
                                                                  : "UNSIGNED";
  const std::string& type = node.attrs.compare_type;
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}, {}, {}", name, kDirections[static_cast<int>(node.attrs.direction)],
                        operands, type.empty() ? own : type),
            op.function_type());
}

void write_select(OpWriter& op, std::string_view name) {
  const Node* const pred = scalar_of(op.node().operand(0));
  const std::string p = op.writer().name_of(pred), a = op.operand(1), b = op.operand(2);
  op.custom(fmt::format("{} {}, {}, {}", name, p, a, b),
            fmt::format("{}, {}", type_text(pred->shape), type_text(op.node().shape)));
}

void write_clamp(OpWriter& op, std::string_view name) {
  const Node* const low = scalar_of(op.node().operand(0));
  const Node* const high = scalar_of(op.node().operand(2));
  const std::string l = op.writer().name_of(low), x = op.operand(1), h = op.writer().name_of(high);
  const std::string type = type_text(op.node().shape);
  const std::string low_type = type_text(low->shape), high_type = type_text(high->shape);
  op.custom(fmt::format("{} {}, {}, {}", name, l, x, h),
            low_type == type && high_type == type
                ? type
                : fmt::format("({}, {}, {}) -> {}", low_type, type, high_type, type));
}

void write_reduce_precision(OpWriter& op, std::string_view name) {
  const ScalarAttributes& scalar = *op.attrs().scalar;
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}, format = e{}m{}", name, operands, scalar.exponent_bits,
                        scalar.mantissa_bits),
            type_text(op.node().shape));
}

void write_constant(OpWriter& op, std::string_view name) {
  const Array& literal = op.attrs().literal;
  const std::string text = literal.empty()
                               ? "dense_resource<__elided__> : " + type_text(op.node().shape)
                               : op.writer().literal(literal);
  op.writer().line(op.node(), fmt::format("{}{} {}", name, op.dictionary(), text));
}

void write_iota(OpWriter& op, std::string_view name) {
  op.custom(fmt::format("{} dim = {}", name, op.attrs().index), type_text(op.node().shape));
}

// Whether the reshape under a broadcast says rightly where its operand's dims are in the result;
// `kept`: where those are that it does not drop, in order. Dims that grow are said as such no more.
bool are_broadcast_dims(const Dims& from, const Dims& result, const Dims& kept, Dims& dims) {
  std::vector<bool> taken(result.size(), false);
  size_t next = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool grows = dims[i] < 0;
    if (grows) dims[i] = -1 - dims[i];
    if (dims[i] < 0 || dims[i] >= std::ssize(result) || taken[static_cast<size_t>(dims[i])])
      return false;
    taken[static_cast<size_t>(dims[i])] = true;
    if (grows ? from[i] != 1 : next == kept.size() || kept[next] != dims[i]) return false;
    if (!grows) ++next;
  }
  return next == kept.size();
}

// Reshapes and transposes that were made under it are part of it.
void write_broadcast(OpWriter& op, std::string_view name) {
  const Node* x = op.node().operand(0);
  Dims dims = op.attrs().dimensions;
  const auto is_beside = [&](Opcode opcode) {
    return x->is(opcode) && x->frontend_attributes.contains(kImplicit);
  };
  if (is_beside(Opcode::transpose)) {
    Dims moved(dims.size());
    for (size_t i = 0; i < dims.size(); ++i)
      moved[static_cast<size_t>(x->attrs.dimensions[i])] = dims[i];
    dims = std::move(moved);
    x = x->operand(0);
  }
  std::optional<Dims> said = is_beside(Opcode::reshape) ? sdy_broadcast_dims(*x) : std::nullopt;
  if (said && are_broadcast_dims(x->operand(0)->dims(), op.node().dims(), dims, *said)) {
    dims = std::move(*said);
    x = x->operand(0);
  } else if (is_beside(Opcode::reshape)) {
    const Dims& whole = x->operand(0)->dims();
    std::vector<bool> taken(static_cast<size_t>(op.node().rank()), false);
    for (const int64_t d : dims) taken[static_cast<size_t>(d)] = true;
    Dims all;
    size_t next = 0;
    int64_t free = 0;
    for (const int64_t size : whole) {
      const bool kept = next < dims.size() && x->dims()[next] == size &&
                        (size != 1 || whole.size() - all.size() == dims.size() - next);
      if (kept) {
        all.push_back(dims[next++]);
        continue;
      }
      while (free < op.node().rank() && taken[static_cast<size_t>(free)]) ++free;
      all.push_back(free++);
    }
    if (next == dims.size() && all.size() == whole.size()) {
      dims = std::move(all);
      x = x->operand(0);
    }
  }
  const std::string operand = op.writer().name_of(x);
  op.custom(fmt::format("{} {}, dims = {}", name, operand, list_text(dims)),
            fmt::format("({}) -> {}", type_text(x->shape), type_text(op.node().shape)));
}

void write_with_dims(OpWriter& op, std::string_view name) {
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}, dims = {}", name, operands, list_text(op.attrs().dimensions)),
            op.node().is(Opcode::reverse) ? type_text(op.node().shape) : op.function_type());
}

void write_dim(OpWriter& op, std::string_view name) {
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}, dim = {}", name, operands, op.attrs().dimensions[0]),
            op.function_type());
}

void write_slice(OpWriter& op, std::string_view name) {
  const gspmd::Attributes& attrs = op.attrs();
  std::string ranges;
  for (size_t d = 0; d < attrs.starts.size(); ++d) {
    ranges += fmt::format("{}{}:{}", d ? ", " : "", attrs.starts[d], attrs.limits[d]);
    if (d < attrs.strides.size() && attrs.strides[d] != 1)
      ranges += fmt::format(":{}", attrs.strides[d]);
  }
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {} [{}]", name, operands, ranges), op.function_type());
}

void write_pad(OpWriter& op, std::string_view name) {
  Dims low, high, interior;
  for (const PaddingDim& dim : op.attrs().padding) {
    low.push_back(dim.low);
    high.push_back(dim.high);
    interior.push_back(dim.interior);
  }
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}, low = {}, high = {}, interior = {}", name, operands, list_text(low),
                        list_text(high), list_text(interior)),
            op.function_type());
}

void write_dynamic_slice(OpWriter& op, std::string_view name) {
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}, sizes = {}", name, operands, list_text(op.attrs().slice_sizes)),
            op.function_type());
}

void write_element(OpWriter& op, std::string_view name) {
  const std::string operand = op.operand(0);
  op.writer().line_of_one(
      op.node(),
      fmt::format("{} {}[{}]{} : ({}) -> {}", name, operand, op.attrs().index, op.dictionary(),
                  type_text(op.node().operand(0)->shape), type_text(op.node().shape)));
}

std::string precision_list(const gspmd::Attributes& attrs, const char* prefix, const char* suffix) {
  const auto found = attrs.other.find("operand_precision");
  if (found == attrs.other.end()) return "";
  std::string text, word;
  for (const char c : found->second) {
    if (is_letter(c) || is_digit(c)) {
      word.push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c));
    } else if (!word.empty()) {
      text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", prefix, word, suffix);
      word.clear();
    }
  }
  return "[" + text + "]";
}

// "dot_tf32_tf32_f32_x3" by its parts; empty where it is no such name.
std::string algorithm_text(const std::string& name) {
  std::vector<std::string> parts;
  for (const char c : name + "_") {
    if (parts.empty()) parts.emplace_back();
    if (c == '_')
      parts.emplace_back();
    else
      parts.back().push_back(c);
  }
  const bool any = name.starts_with("dot_any_f8_any_f8_f32");
  if (!any && (parts.size() < 5 || parts[0] != "dot")) return "";
  const std::string lhs = any ? "f8E5M2" : parts[1], rhs = any ? "f8E5M2" : parts[2],
                    sum = any ? "f32" : parts[3];
  const std::string count = !any && parts[4].starts_with("x") ? parts[4].substr(1) : "1";
  return fmt::format(
      "<lhs_precision_type = {}, rhs_precision_type = {}, accumulation_type = {}, "
      "lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = {}, "
      "allow_imprecise_accumulation = {}>",
      lhs, rhs, sum, count, name.ends_with("fast_accum"));
}

void write_dot(OpWriter& op, std::string_view name) {
  const DotDims& dot = *op.attrs().dot;
  std::string text = fmt::format("{} {}", name, op.operands());
  if (!dot.lhs_batch.empty() || !dot.rhs_batch.empty())
    text += fmt::format(", batching_dims = {} x {}", list_text(dot.lhs_batch),
                        list_text(dot.rhs_batch));
  text += fmt::format(", contracting_dims = {} x {}", list_text(dot.lhs_contracting),
                      list_text(dot.rhs_contracting));
  const std::string precision = precision_list(op.attrs(), "", "");
  if (!precision.empty()) text += ", precision = " + precision;
  const std::string algorithm = algorithm_text(op.attrs().scalar->algorithm);
  if (!algorithm.empty()) text += ", algorithm = " + algorithm;
  op.custom(text, op.function_type());
}

void write_ragged_dot(OpWriter& op, std::string_view name) {
  const DotDims& dot = *op.attrs().dot;
  const RaggedDotDims& ragged = *op.attrs().ragged;
  op.generic(
      std::string(name),
      {{"ragged_dot_dimension_numbers",
        fmt::format("#chlo.ragged_dot<lhs_batching_dimensions = {}, rhs_batching_dimensions = {}, "
                    "lhs_contracting_dimensions = {}, rhs_contracting_dimensions = {}, "
                    "lhs_ragged_dimensions = {}, rhs_group_dimensions = {}>",
                    list_text(dot.lhs_batch), list_text(dot.rhs_batch),
                    list_text(dot.lhs_contracting), list_text(dot.rhs_contracting),
                    list_text(ragged.lhs_ragged), list_text(ragged.rhs_group))}});
}

std::string labels(int64_t rank, std::pair<char, int64_t> first, std::pair<char, int64_t> second,
                   const Dims& spatial) {
  std::string text;
  for (int64_t d = 0; d < rank; ++d) {
    text += d ? ", " : "";
    const auto at = std::find(spatial.begin(), spatial.end(), d);
    if (d == first.second)
      text.push_back(first.first);
    else if (d == second.second)
      text.push_back(second.first);
    else
      text += std::to_string(at - spatial.begin());
  }
  return "[" + text + "]";
}

void write_convolution(OpWriter& op, std::string_view name) {
  const ConvDims& conv = *op.attrs().conv;
  const int64_t rank = op.node().rank();
  std::string stride, pad, base, dilation, reverse;
  const auto put = [](std::string& text, const std::string& value) {
    text += (text.empty() ? "" : ", ") + value;
  };
  bool strides = false, pads = false, bases = false, dilations = false, reverses = false;
  for (const WindowDim& w : op.attrs().window) {
    put(stride, std::to_string(w.stride));
    put(pad, fmt::format("[{}, {}]", w.pad_low, w.pad_high));
    put(base, std::to_string(w.base_dilation));
    put(dilation, std::to_string(w.window_dilation));
    put(reverse, w.reversal ? "true" : "false");
    strides = strides || w.stride != 1;
    pads = pads || w.pad_low != 0 || w.pad_high != 0;
    bases = bases || w.base_dilation != 1;
    dilations = dilations || w.window_dilation != 1;
    reverses = reverses || w.reversal;
  }
  std::string window;
  if (strides) put(window, "stride = [" + stride + "]");
  if (pads) put(window, "pad = [" + pad + "]");
  if (bases) put(window, "lhs_dilate = [" + base + "]");
  if (dilations) put(window, "rhs_dilate = [" + dilation + "]");
  if (reverses) put(window, "reverse = [" + reverse + "]");
  Fields own = {{"batch_group_count", fmt::format("{} : i64", conv.batch_group_count)},
                {"feature_group_count", fmt::format("{} : i64", conv.feature_group_count)}};
  const std::string precision = precision_list(op.attrs(), "#stablehlo<precision ", ">");
  if (!precision.empty()) own.emplace_back("precision_config", precision);
  const std::string operands = op.operands();
  op.custom(
      fmt::format(
          "{}({}) dim_numbers = {}x{}->{}, window = {{{}}}", name, operands,
          labels(rank, {'b', conv.input_batch}, {'f', conv.input_feature}, conv.input_spatial),
          labels(rank, {'i', conv.kernel_input_feature}, {'o', conv.kernel_output_feature},
                 conv.kernel_spatial),
          labels(rank, {'b', conv.output_batch}, {'f', conv.output_feature}, conv.output_spatial),
          window),
      op.function_type(), std::move(own));
}

void write_cholesky(OpWriter& op, std::string_view name) {
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}, lower = {}", name, operands, op.attrs().triangular->lower),
            type_text(op.node().shape));
}

void write_triangular_solve(OpWriter& op, std::string_view name) {
  const TriangularDims& t = *op.attrs().triangular;
  const auto flag = [](bool value) { return std::string(value ? "true" : "false"); };
  op.generic(
      std::string(name),
      {{"left_side", flag(t.left_side)},
       {"lower", flag(t.lower)},
       {"unit_diagonal", flag(t.unit_diagonal)},
       {"transpose_a", fmt::format("#stablehlo<transpose {}>",
                                   t.transpose_a.empty() ? "NO_TRANSPOSE" : t.transpose_a)}});
}

void write_fft(OpWriter& op, std::string_view name) {
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}, type = {}, length = {}", name, operands,
                        op.attrs().scalar->fft_type, list_text(op.attrs().dimensions)),
            op.function_type());
}

void write_batch_norm(OpWriter& op, std::string_view name) {
  op.generic(
      std::string(name),
      {{"epsilon", fmt::format("{:.8e} : f32", static_cast<float>(op.attrs().scalar->epsilon))},
       {"feature_index", fmt::format("{} : i64", op.attrs().index)}});
}

void write_gather(OpWriter& op, std::string_view name) {
  const GatherDims& g = *op.attrs().gather;
  std::string numbers;
  const auto put = [&](const char* key, const Dims& dims) {
    if (!dims.empty())
      numbers += fmt::format("{}{} = {}", numbers.empty() ? "" : ", ", key, list_text(dims));
  };
  put("offset_dims", g.offset_dims);
  put("collapsed_slice_dims", g.collapsed_slice_dims);
  put("operand_batching_dims", g.operand_batching_dims);
  put("start_indices_batching_dims", g.start_indices_batching_dims);
  put("start_index_map", g.start_index_map);
  if (g.index_vector_dim != 0)
    numbers +=
        fmt::format("{}index_vector_dim = {}", numbers.empty() ? "" : ", ", g.index_vector_dim);
  op.generic(std::string(name),
             {{"dimension_numbers", "#stablehlo.gather<" + numbers + ">"},
              {"indices_are_sorted", op.attrs().indices_are_sorted ? "true" : "false"},
              {"slice_sizes", array_text(op.attrs().slice_sizes)}});
}

void write_no_operands(OpWriter& op, std::string_view name) {
  op.custom(std::string(name), type_text(op.node().shape));
}

void write_after_all(OpWriter& op, std::string_view name) {
  if (op.node().operands().empty()) return op.custom("stablehlo.create_token", "!stablehlo.token");
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}", name, operands), "!stablehlo.token");
}

void write_rng(OpWriter& op, std::string_view name) {
  Writer& writer = op.writer();
  const std::string operands = op.operands();
  Array sizes(DType::s64, {op.node().rank()});
  for (int64_t d = 0; d < op.node().rank(); ++d)
    sizes.set(d, static_cast<double>(op.node().dim(d)));
  const std::string shape = writer.new_name("c");
  writer.raw_line(fmt::format("{} = stablehlo.constant {}", shape, dense_text(sizes)));
  op.custom(fmt::format("{} {}, {}, distribution = {}", name, operands, shape,
                        op.attrs().scalar->distribution == "rng_normal" ? "NORMAL" : "UNIFORM"),
            fmt::format("({}, {}) -> {}", op.operand_types(), type_text(sizes.shape()),
                        type_text(op.node().shape)));
}

void write_rng_bit_generator(OpWriter& op, std::string_view name) {
  if (!op.node().shape.is_tuple) return write_custom_call(op, "");  // the bits alone
  const std::string& algorithm = op.attrs().scalar->algorithm;
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}, algorithm = {}", name, operands,
                        algorithm == "rng_three_fry" ? "THREE_FRY"
                        : algorithm == "rng_philox"  ? "PHILOX"
                                                     : "DEFAULT"),
            op.function_type());
}

void write_top_k(OpWriter& op, std::string_view name) {
  if (!op.attrs().scalar->largest) return write_custom_call(op, "");
  const std::string operands = op.operands();
  op.custom(fmt::format("{}({}, k = {})", name, operands, op.attrs().scalar->k),
            op.operand_types() + " -> " + op.result_types());
}

// clang-format off
const PrintRow kPrintedPlainOpsRows[] = {
    {Opcode::abs, "stablehlo.abs", write_elementwise},
    {Opcode::cbrt, "stablehlo.cbrt", write_elementwise},
    {Opcode::ceil, "stablehlo.ceil", write_elementwise},
    {Opcode::convert, "stablehlo.convert", write_convert},
    {Opcode::cosine, "stablehlo.cosine", write_elementwise},
    {Opcode::count_leading_zeros, "stablehlo.count_leading_zeros", write_elementwise},
    {Opcode::exponential, "stablehlo.exponential", write_elementwise},
    {Opcode::exponential_minus_one, "stablehlo.exponential_minus_one", write_elementwise},
    {Opcode::floor, "stablehlo.floor", write_elementwise},
    {Opcode::imag, "stablehlo.imag", write_elementwise},
    {Opcode::is_finite, "stablehlo.is_finite", write_elementwise},
    {Opcode::log, "stablehlo.log", write_elementwise},
    {Opcode::log_plus_one, "stablehlo.log_plus_one", write_elementwise},
    {Opcode::logistic, "stablehlo.logistic", write_elementwise},
    {Opcode::negate, "stablehlo.negate", write_elementwise},
    {Opcode::not_, "stablehlo.not", write_elementwise},
    {Opcode::mulhi, "chlo.mulhi", write_chlo},
    {Opcode::popcnt, "stablehlo.popcnt", write_elementwise},
    {Opcode::real, "stablehlo.real", write_elementwise},
    {Opcode::round_nearest_afz, "stablehlo.round_nearest_afz", write_elementwise},
    {Opcode::round_nearest_even, "stablehlo.round_nearest_even", write_elementwise},
    {Opcode::rsqrt, "stablehlo.rsqrt", write_elementwise},
    {Opcode::sign, "stablehlo.sign", write_elementwise},
    {Opcode::sine, "stablehlo.sine", write_elementwise},
    {Opcode::sqrt, "stablehlo.sqrt", write_elementwise},
    {Opcode::tan, "stablehlo.tan", write_elementwise},
    {Opcode::tanh, "stablehlo.tanh", write_elementwise},
    {Opcode::acos, "chlo.acos", write_chlo},
    {Opcode::acosh, "chlo.acosh", write_chlo},
    {Opcode::asin, "chlo.asin", write_chlo},
    {Opcode::asinh, "chlo.asinh", write_chlo},
    {Opcode::atanh, "chlo.atanh", write_chlo},
    {Opcode::cosh, "chlo.cosh", write_chlo},
    {Opcode::sinh, "chlo.sinh", write_chlo},
    {Opcode::erf, "chlo.erf", write_chlo},
    {Opcode::add, "stablehlo.add", write_elementwise},
    {Opcode::and_, "stablehlo.and", write_elementwise},
    {Opcode::atan2, "stablehlo.atan2", write_elementwise},
    {Opcode::divide, "stablehlo.divide", write_elementwise},
    {Opcode::maximum, "stablehlo.maximum", write_elementwise},
    {Opcode::minimum, "stablehlo.minimum", write_elementwise},
    {Opcode::multiply, "stablehlo.multiply", write_elementwise},
    {Opcode::or_, "stablehlo.or", write_elementwise},
    {Opcode::power, "stablehlo.power", write_elementwise},
    {Opcode::remainder, "stablehlo.remainder", write_elementwise},
    {Opcode::shift_left, "stablehlo.shift_left", write_elementwise},
    {Opcode::shift_right_arithmetic, "stablehlo.shift_right_arithmetic", write_elementwise},
    {Opcode::shift_right_logical, "stablehlo.shift_right_logical", write_elementwise},
    {Opcode::subtract, "stablehlo.subtract", write_elementwise},
    {Opcode::xor_, "stablehlo.xor", write_elementwise},
    {Opcode::complex, "stablehlo.complex", write_complex},
    {Opcode::compare, "stablehlo.compare", write_compare},
    {Opcode::select, "stablehlo.select", write_select},
    {Opcode::clamp, "stablehlo.clamp", write_clamp},
    {Opcode::reduce_precision, "stablehlo.reduce_precision", write_reduce_precision},
    {Opcode::constant, "stablehlo.constant", write_constant},
    {Opcode::iota, "stablehlo.iota", write_iota},
    {Opcode::broadcast, "stablehlo.broadcast_in_dim", write_broadcast},
    {Opcode::reshape, "stablehlo.reshape", write_convert},
    {Opcode::bitcast_convert, "stablehlo.bitcast_convert", write_convert},
    {Opcode::transpose, "stablehlo.transpose", write_with_dims},
    {Opcode::reverse, "stablehlo.reverse", write_with_dims},
    {Opcode::concatenate, "stablehlo.concatenate", write_dim},
    {Opcode::slice, "stablehlo.slice", write_slice},
    {Opcode::pad, "stablehlo.pad", write_pad},
    {Opcode::dynamic_slice, "stablehlo.dynamic_slice", write_dynamic_slice},
    {Opcode::dynamic_update_slice, "stablehlo.dynamic_update_slice", write_convert},
    {Opcode::get_dimension_size, "stablehlo.get_dimension_size", write_dim},
    {Opcode::set_dimension_size, "stablehlo.set_dimension_size", write_dim},
    {Opcode::get_tuple_element, "stablehlo.get_tuple_element", write_element},
    {Opcode::dot, "stablehlo.dot_general", write_dot},
    {Opcode::ragged_dot, "chlo.ragged_dot", write_ragged_dot},
    {Opcode::convolution, "stablehlo.convolution", write_convolution},
    {Opcode::cholesky, "stablehlo.cholesky", write_cholesky},
    {Opcode::triangular_solve, "stablehlo.triangular_solve", write_triangular_solve},
    {Opcode::fft, "stablehlo.fft", write_fft},
    {Opcode::batch_norm_training, "stablehlo.batch_norm_training", write_batch_norm},
    {Opcode::batch_norm_inference, "stablehlo.batch_norm_inference", write_batch_norm},
    {Opcode::batch_norm_grad, "stablehlo.batch_norm_grad", write_batch_norm},
    {Opcode::gather, "stablehlo.gather", write_gather},
    {Opcode::partition_id, "stablehlo.partition_id", write_no_operands},
    {Opcode::replica_id, "stablehlo.replica_id", write_no_operands},
    {Opcode::after_all, "stablehlo.after_all", write_after_all},
    {Opcode::rng, "stablehlo.rng", write_rng},
    {Opcode::rng_bit_generator, "stablehlo.rng_bit_generator", write_rng_bit_generator},
    {Opcode::topk, "chlo.top_k", write_top_k},
};
// clang-format on

}  // namespace

std::span<const PrintRow> plain_print_rows() { return kPrintedPlainOpsRows; }

}  // namespace gspmd::stablehlo
