// Products, convolutions, linear algebra, Fourier transforms, batch normalization.
#include <algorithm>
#include <map>

#include "stablehlo/lowering.h"
#include "stablehlo/ops/windows.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

// --- Pretty forms

// "(%x, %k) dim_numbers = [..]x[..]->[..], window = {stride = [..], ..} {..} : FT".
void read_convolution(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  cursor.expect("(", "before the operands of a convolution");
  reader.read_uses(op.operands);
  cursor.expect(")", "behind the operands of a convolution");
  cursor.expect_word("dim_numbers", "behind the operands of a convolution");
  cursor.expect("=", "behind dim_numbers");
  Attribute numbers;
  numbers.kind = AttributeKind::dialect;
  numbers.text = "stablehlo.conv";
  numbers.position = numbers.body = cursor.position();
  for (const char* separator : {"x", "->", ""}) {
    cursor.expect("[", "before the dims of a convolution");
    cursor.balanced("the dims of a convolution");
    cursor.expect("]", "behind the dims of a convolution");
    if (*separator != '\0') cursor.expect(separator, "between the dims of a convolution");
  }
  numbers.body_end = numbers.end = cursor.position();
  op.set("dimension_numbers", std::move(numbers));
  cursor.expect(",", "behind the dims of a convolution");
  cursor.expect_word("window", "behind the dims of a convolution");
  cursor.expect("=", "behind window");
  constexpr std::pair<std::string_view, std::string_view> kEntries[] = {
      {"stride", "window_strides"},
      {"pad", "padding"},
      {"lhs_dilate", "lhs_dilation"},
      {"rhs_dilate", "rhs_dilation"},
      {"reverse", "window_reversal"}};
  Dictionary window;
  reader.attributes().read_dictionary(cursor, window);
  for (NamedAttribute& named : window) {
    const auto entry = std::find_if(std::begin(kEntries), std::end(kEntries),
                                    [&](const auto& e) { return e.first == named.name; });
    if (entry == std::end(kEntries)) cursor.fail(named.position, "a window has no {}", named.name);
    op.set(entry->second, std::move(named.value));
  }
  reader.read_dictionary(op);
  reader.read_types(op);
}

// --- HLO

// "contracting_dims = [2] x [1]": two lists.
std::pair<Dims, Dims> list_pair(OpLowering& op, std::string_view name) {
  const Attribute* const pair = op.find(name);
  if (pair == nullptr) return {};
  if (pair->kind != AttributeKind::list || pair->list.size() != 2)
    op.fail("{} is no [..] x [..]", name);
  return {op.integers_of(pair->list[0], name), op.integers_of(pair->list[1], name)};
}

DotDims dot_dims(OpLowering& op) {
  DotDims dims;
  const Attribute* const numbers = op.find("dot_dimension_numbers");
  if (numbers == nullptr) {
    std::tie(dims.lhs_batch, dims.rhs_batch) = list_pair(op, "batching_dims");
    std::tie(dims.lhs_contracting, dims.rhs_contracting) = list_pair(op, "contracting_dims");
    return dims;
  }
  for (const NamedAttribute& field : op.fields(*numbers)) {
    const Dims values = op.integers_of(field.value, field.name);
    if (field.name == "lhs_batching_dimensions")
      dims.lhs_batch = values;
    else if (field.name == "rhs_batching_dimensions")
      dims.rhs_batch = values;
    else if (field.name == "lhs_contracting_dimensions")
      dims.lhs_contracting = values;
    else if (field.name == "rhs_contracting_dimensions")
      dims.rhs_contracting = values;
    else
      op.fail("dot_dimension_numbers has no {}", field.name);
  }
  return dims;
}

Node* lower_dot_general(OpLowering& op) {
  op.need_operands(2, 2);
  Attributes attrs;
  attrs.dot = dot_dims(op);
  add_precision(op, attrs);
  add_algorithm(op, attrs);
  return op.emit(Opcode::dot, op.operands(), std::move(attrs), Shape(op.result().dtype, {}));
}

// The last dim of the left side with the first of the right one.
Node* lower_dot(OpLowering& op) {
  op.need_operands(2, 2);
  Attributes attrs;
  const int64_t rank = op.operand(0)->rank();
  if (rank < 1 || rank > 2 || op.operand(1)->rank() < 1 || op.operand(1)->rank() > 2)
    op.fail("{} and {} are no vectors or matrices", to_string(op.operand(0)->shape),
            to_string(op.operand(1)->shape));
  attrs.dot.edit().lhs_contracting = {rank - 1};
  attrs.dot.edit().rhs_contracting = {0};
  add_precision(op, attrs);
  return op.emit(Opcode::dot, op.operands(), std::move(attrs), Shape(op.result().dtype, {}));
}

// "ab,bc->ac".
Node* lower_einsum(OpLowering& op) {
  const std::string config = op.string("einsum_config");
  const size_t arrow = config.find("->"), comma = config.find(',');
  if (arrow == std::string::npos || config.find('.') != std::string::npos ||
      (comma == std::string::npos) != (op.count() == 1))
    op.fail("einsum_config \"{}\" is no a,b->c; ellipses are not supported", config);
  const std::string out = config.substr(arrow + 2);
  std::string left = config.substr(0, std::min(comma, arrow));
  Node* x = op.operand(0);
  const auto has = [](const std::string& text, char c) {
    return text.find(c) != std::string::npos;
  };
  const auto check = [&](const std::string& labels, const Node* node) {
    if (std::ssize(labels) != node->rank())
      op.fail("\"{}\" for {}", labels, to_string(node->shape));
    for (size_t i = 0; i < labels.size(); ++i)
      if (labels.find(labels[i], i + 1) != std::string::npos)
        op.fail("\"{}\" names a dim twice", labels);
  };
  check(left, x);
  std::string labels;
  if (op.count() == 2) {
    const std::string right = config.substr(comma + 1, arrow - comma - 1);
    Node* const y = op.operand(1);
    check(right, y);
    Attributes attrs;
    DotDims& dot = attrs.dot.edit();
    for (size_t i = 0; i < left.size(); ++i) {
      const size_t j = right.find(left[i]);
      if (j == std::string::npos) continue;
      const bool is_batch = has(out, left[i]);
      (is_batch ? dot.lhs_batch : dot.lhs_contracting).push_back(static_cast<int64_t>(i));
      (is_batch ? dot.rhs_batch : dot.rhs_contracting).push_back(static_cast<int64_t>(j));
      if (is_batch) labels.push_back(left[i]);
    }
    for (const char c : left)
      if (!has(right, c)) labels.push_back(c);
    for (const char c : right)
      if (!has(left, c)) labels.push_back(c);
    add_precision(op, attrs);
    x = op.emit(Opcode::dot, {x, y}, std::move(attrs), Shape(op.result().dtype, {}));
  } else {
    labels = left;
  }
  Dims summed, order;
  std::string kept;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (has(out, labels[i]))
      kept.push_back(labels[i]);
    else
      summed.push_back(static_cast<int64_t>(i));
  }
  if (!summed.empty()) x = hlo::reduce_sum(x, summed);
  for (const char c : out) {
    const size_t at = kept.find(c);
    if (at == std::string::npos) op.fail("\"{}\" makes the dim {} of nothing", config, c);
    order.push_back(static_cast<int64_t>(at));
  }
  return std::is_sorted(order.begin(), order.end()) && order.size() == kept.size()
             ? x
             : hlo::transpose(x, order);
}

Node* lower_convolution(OpLowering& op) {
  op.need_operands(2, 2);
  const auto spatial = static_cast<size_t>(std::max<int64_t>(op.operand(1)->rank() - 2, 0));
  Attributes attrs = convolution_attributes(op, padding_of(op, spatial));
  return op.emit(Opcode::convolution, op.operands(), std::move(attrs),
                 Shape(op.result().dtype, {}));
}

Node* lower_cholesky(OpLowering& op) {
  op.need_operands(1, 1);
  Attributes attrs;
  attrs.triangular.edit().lower = op.flag("lower", false);
  return op.emit(Opcode::cholesky, op.operands(), std::move(attrs));
}

Node* lower_triangular_solve(OpLowering& op) {
  op.need_operands(2, 2);
  Attributes attrs;
  attrs.triangular.edit().left_side = op.flag("left_side", false);
  attrs.triangular.edit().lower = op.flag("lower", false);
  attrs.triangular.edit().unit_diagonal = op.flag("unit_diagonal", false);
  attrs.triangular.edit().transpose_a = op.word("transpose_a");
  return op.emit(Opcode::triangular_solve, op.operands(), std::move(attrs));
}

Node* lower_fft(OpLowering& op) {
  op.need_operands(1, 1);
  Attributes attrs;
  attrs.scalar.edit().fft_type = op.word("fft_type");
  attrs.dimensions = op.integers("fft_length");
  return op.emit(Opcode::fft, op.operands(), std::move(attrs));
}

Node* lower_batch_norm(OpLowering& op) {
  Attributes attrs;
  attrs.scalar.edit().epsilon = op.real("epsilon");
  attrs.index = op.integer("feature_index");
  return op.emit(op.opcode(), op.operands(), std::move(attrs));
}

constexpr KeyName kDot[] = {{"batching_dims", "batching_dims"},
                            {"contracting_dims", "contracting_dims"},
                            {"precision", "precision_config"},
                            {"algorithm", "algorithm"}};
constexpr KeyName kPrecision[] = {{"precision", "precision_config"}};
constexpr KeyName kConfig[] = {{"config", "einsum_config"}, {"precision", "precision_config"}};
constexpr KeyName kLower[] = {{"lower", "lower"}};
constexpr KeyName kFft[] = {{"type", "fft_type"}, {"length", "fft_length"}};

// clang-format off
const OpRow kContractionRows[] = {
    {"stablehlo.dot_general", lower_dot_general, Opcode::dot, nullptr, kDot},
    {"stablehlo.dot", lower_dot, Opcode::dot, nullptr, kPrecision},
    {"stablehlo.einsum", lower_einsum, Opcode::dot, nullptr, kConfig},
    {"stablehlo.unary_einsum", lower_einsum, Opcode::reduce, nullptr, kConfig},
    {"stablehlo.convolution", lower_convolution, Opcode::convolution, read_convolution},
    {"stablehlo.cholesky", lower_cholesky, Opcode::cholesky, nullptr, kLower},
    {"stablehlo.triangular_solve", lower_triangular_solve, Opcode::triangular_solve},
    {"stablehlo.fft", lower_fft, Opcode::fft, nullptr, kFft},
    {"stablehlo.batch_norm_training", lower_batch_norm, Opcode::batch_norm_training},
    {"stablehlo.batch_norm_inference", lower_batch_norm, Opcode::batch_norm_inference},
    {"stablehlo.batch_norm_grad", lower_batch_norm, Opcode::batch_norm_grad},
};
// clang-format on

}  // namespace

std::span<const OpRow> contraction_rows() { return kContractionRows; }

}  // namespace gspmd::stablehlo
