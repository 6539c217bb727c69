#include "ops/elementwise/elementwise.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/loop_lowering.h"
#include "ops/rows.h"
#include "ops/shape/shape.h"

namespace gspmd {
namespace {

// Which element types an op takes.
enum class Types : uint8_t { any, number, real, real_number, floating, analytic, integer, logical };

struct TypesRow {
  Types types;
  const char* text;
  bool (*accepts)(DType dtype);
};
bool not_token(DType t) { return t != DType::token && t != DType::opaque; }
bool number(DType t) { return not_token(t) && t != DType::pred; }
bool real(DType t) { return not_token(t) && !is_complex(t); }
bool real_number(DType t) { return number(t) && !is_complex(t); }
bool analytic(DType t) { return is_floating(t) || is_complex(t); }
bool logical(DType t) { return is_integer(t) || t == DType::pred; }

constexpr TypesRow kTypes[] = {
    {Types::any, "any element type but token", not_token},
    {Types::number, "numbers", number},
    {Types::real, "real numbers or pred", real},
    {Types::real_number, "real numbers", real_number},
    {Types::floating, "floating point numbers", is_floating},
    {Types::analytic, "floating point or complex numbers", analytic},
    {Types::integer, "integers", is_integer},
    {Types::logical, "integers or pred", logical},
};

void check_types(const Node& node, const Shape& shape, Types types) {
  const TypesRow& row = kTypes[static_cast<size_t>(types)];
  if (!row.accepts(shape.dtype))
    user_error("{}: an operand is {}; it takes {}, convert it first", opcode_name(node.opcode()),
               to_string(shape), row.text);
}

template <Types types>
Shape infer_unary(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  check_types(node, x, types);
  return Shape(x.dtype, x.dims);
}

// Tuples too, as a whole.
Shape infer_copy(const Node& node) {
  check_operand_count(node, 1);
  return node.operand(0)->shape.is_tuple ? node.operand(0)->shape : infer_unary<Types::any>(node);
}

FactorRule copy_factors(const Node& node) {
  return node.shape.is_tuple ? no_factors(node) : pointwise_factors(node);
}

template <Types types>
Shape infer_binary(const Node& node) {
  check_operand_count(node, 2);
  check_same_dims(node, 0, 1);
  check_same_dtype(node, 0, 1);
  const Shape& x = array_operand(node, 0);
  check_types(node, x, types);
  return Shape(x.dtype, x.dims);
}

DType part_type(DType t) {
  return t == DType::c64 ? DType::f32 : t == DType::c128 ? DType::f64 : t;
}

Shape infer_abs(const Node& node) {
  const Shape x = infer_unary<Types::number>(node);
  return Shape(part_type(x.dtype), x.dims);
}

Shape infer_part(const Node& node) {
  const Shape x = infer_unary<Types::analytic>(node);
  return Shape(part_type(x.dtype), x.dims);
}

Shape infer_complex(const Node& node) {
  const Shape x = infer_binary<Types::floating>(node);
  if (x.dtype != DType::f32 && x.dtype != DType::f64)
    user_error("complex: parts of {} make no complex number; convert them to f32 or f64",
               to_string(x));
  return Shape(x.dtype == DType::f32 ? DType::c64 : DType::c128, x.dims);
}

Shape infer_reduce_precision(const Node& node) {
  const Shape x = infer_unary<Types::floating>(node);
  const ScalarAttributes& attrs = node.attrs.scalar;
  if (attrs.exponent_bits < 1 || attrs.mantissa_bits < 0)
    user_error("reduce-precision: exponent_bits={}, mantissa_bits={}; at least 1 and 0 are needed",
               attrs.exponent_bits, attrs.mantissa_bits);
  return x;
}

Shape infer_stochastic_convert(const Node& node) {
  check_operand_count(node, 2);
  check_same_dims(node, 0, 1);
  const Shape& x = array_operand(node, 0);
  const Shape& random = array_operand(node, 1);
  const Shape& declared = declared_array(node);
  check_types(node, x, Types::floating);
  check_types(node, declared, Types::real);
  if (!is_unsigned_integer(random.dtype) || dtype_size(random.dtype) != dtype_size(x.dtype))
    user_error(
        "stochastic-convert: the random bits are {}; {} needs unsigned integers of its width",
        to_string(random), to_string(x));
  if (x.dims != declared.dims)
    user_error("stochastic-convert: operand {} and result {} differ in dims", to_string(x),
               to_string(declared));
  return declared;
}

Shape infer_mulhi(const Node& node) {
  const Shape shape = infer_binary<Types::integer>(node);
  if (is_narrow(shape.dtype))
    user_error("mulhi: {} has no upper half of whole bytes; convert the operands to s8 or u8",
               to_string(shape));
  return shape;
}

Shape infer_is_finite(const Node& node) {
  return Shape(DType::pred, infer_unary<Types::floating>(node).dims);
}

Shape infer_compare(const Node& node) {
  const Shape operand = infer_binary<Types::any>(node);
  constexpr std::string_view kKinds[] = {"", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};
  bool known = false;
  for (const std::string_view kind : kKinds) known |= node.attrs.compare_type == kind;
  if (!known)
    user_error("compare: type={} is none of FLOAT, TOTALORDER, SIGNED, UNSIGNED",
               *node.attrs.compare_type);
  const Direction direction = node.attrs.direction;
  if (is_complex(operand.dtype) && direction != Direction::eq && direction != Direction::ne)
    user_error("compare: {} has no order; compare complex numbers with EQ or NE only",
               to_string(operand));
  return Shape(DType::pred, operand.dims);
}

Shape infer_convert(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  const Shape& declared = declared_array(node);
  check_types(node, x, Types::any);
  check_types(node, declared, Types::any);
  if (x.dims != declared.dims)
    user_error(
        "convert: operand {} and result {} differ in dims; convert changes the element type only",
        to_string(x), to_string(declared));
  return declared;
}

Shape infer_select(const Node& node) {
  check_operand_count(node, 3);
  const Shape& pred = array_operand(node, 0);
  const Shape& x = array_operand(node, 1);
  check_same_dims(node, 1, 2);
  check_same_dtype(node, 1, 2);
  if (pred.dtype != DType::pred)
    user_error("select: the selector is {}; it has to be of type pred", to_string(pred));
  if (pred.rank() != 0 && pred.dims != x.dims)
    user_error(
        "select: selector {} and operand {} differ in dims; the selector has the operand's dims or "
        "is a scalar",
        to_string(pred), to_string(x));
  return Shape(x.dtype, x.dims);
}

Shape infer_clamp(const Node& node) {
  check_operand_count(node, 3);
  const Shape& x = array_operand(node, 1);
  check_types(node, x, Types::any);
  for (const int64_t bound : {0, 2}) {
    const Shape& shape = array_operand(node, bound);
    check_same_dtype(node, bound, 1);
    if (shape.rank() != 0 && shape.dims != x.dims)
      user_error(
          "clamp: bound {} and operand {} differ in dims; a bound has the operand's dims or is a "
          "scalar",
          to_string(shape), to_string(x));
  }
  return Shape(x.dtype, x.dims);
}

// Complex numbers have complex parts only.
void check_bitcast_types(const Node& node, const Shape& x, const Shape& declared) {
  for (const Shape* shape : {&x, &declared})
    if (!not_token(shape->dtype))
      user_error("{}: {} has no bits to reinterpret", opcode_name(node.opcode()),
                 to_string(*shape));
  if (is_complex(x.dtype) != is_complex(declared.dtype))
    user_error("{}: {} cannot become {}; take real and imag apart, or join them by complex",
               opcode_name(node.opcode()), to_string(x), to_string(declared));
}

// Same rank at equal sizes; else the narrower side has one more, minor dim that holds the parts.
// An element of pred is one bit.
Shape infer_bitcast_convert(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  const Shape& declared = declared_array(node);
  check_bitcast_types(node, x, declared);
  const int64_t from = element_bits(x.dtype);
  const int64_t to = element_bits(declared.dtype);
  if (std::max(from, to) % std::min(from, to) != 0)
    user_error(
        "bitcast-convert: {} of {} bits and {} of {}: elements cannot be parts of one another",
        dtype_name(x.dtype), from, dtype_name(declared.dtype), to);
  Dims wanted = x.dims;
  if (to < from) {
    wanted.push_back(from / to);
  } else if (to > from) {
    if (wanted.empty() || wanted.back() != to / from)
      user_error("bitcast-convert: {} to {} needs a last dim of {}, one element of the result",
                 to_string(x), dtype_name(declared.dtype), to / from);
    wanted.pop_back();
  }
  if (wanted != declared.dims)
    user_error("bitcast-convert: {} becomes {}, {} is declared", to_string(x),
               to_string(Shape(declared.dtype, wanted)), to_string(declared));
  return checked_size(node, declared);
}

// The same storage in row-major order under any dims: a byte for an element of pred.
Shape infer_bitcast(const Node& node) {
  check_operand_count(node, 1);
  const Shape& x = array_operand(node, 0);
  const Shape declared = checked_size(node, declared_array(node));
  check_bitcast_types(node, x, declared);
  if (declared.dtype == DType::pred && x.dtype != DType::pred)
    user_error("bitcast: {} cannot become {}; compare it with zero", to_string(x),
               to_string(declared));
  if (saturating_multiply(x.elements_count(), storage_bits(x.dtype)) !=
      saturating_multiply(declared.elements_count(), storage_bits(declared.dtype)))
    user_error("bitcast: operand {} and result {} differ in their number of bits", to_string(x),
               to_string(declared));
  return declared;
}

FactorRule bitcast_factors(const Node& node) {
  if (node.operand(0)->dims() == node.dims()) return pointwise_factors(node);
  if (storage_bits(node.operand(0)->shape.dtype) == storage_bits(node.shape.dtype))
    return reshape_factors(node);
  FactorRule rule = no_factors(node);
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d) block_operand(rule, node, 0, d);
  for (int64_t d = 0; d < node.rank(); ++d) block_result(rule, node, d);
  return rule;
}

FactorRule bitcast_convert_factors(const Node& node) {
  FactorRule rule = no_factors(node);
  const int64_t operand_rank = node.operand(0)->rank();
  for (int64_t d = 0; d < std::min(operand_rank, node.rank()); ++d)
    rule.operands[0][static_cast<size_t>(d)] = rule.results[0][static_cast<size_t>(d)] =
        add_factor(rule, node.dim(d));
  if (operand_rank > node.rank()) block_operand(rule, node, 0, operand_rank - 1);
  if (operand_rank < node.rank()) block_result(rule, node, node.rank() - 1);
  return rule;
}

struct ElementwiseRow {
  Opcode opcode;
  int operands;
  uint32_t traits;  // besides kElementwise
  Shape (*infer)(const Node& node);
  int additions = 1;  // what an element costs
  FactorRule (*factors)(const Node& node) = pointwise_factors;
};

constexpr uint32_t kExact = kIntegerPreserving;
constexpr ElementwiseRow kElementwiseRows[] = {
    {Opcode::abs, 1, kExact, infer_abs},
    {Opcode::ceil, 1, kExact, infer_unary<Types::floating>},
    {Opcode::acos, 1, 0, infer_unary<Types::analytic>},
    {Opcode::acosh, 1, 0, infer_unary<Types::analytic>},
    {Opcode::asin, 1, 0, infer_unary<Types::analytic>},
    {Opcode::asinh, 1, 0, infer_unary<Types::analytic>},
    {Opcode::atanh, 1, 0, infer_unary<Types::analytic>},
    {Opcode::cbrt, 1, 0, infer_unary<Types::analytic>},
    {Opcode::cosine, 1, 0, infer_unary<Types::analytic>, 40},
    {Opcode::cosh, 1, 0, infer_unary<Types::analytic>},
    {Opcode::count_leading_zeros, 1, kExact, infer_unary<Types::integer>},
    {Opcode::erf, 1, 0, infer_unary<Types::floating>},
    {Opcode::imag, 1, kExact | kLinear, infer_part},
    {Opcode::popcnt, 1, kExact, infer_unary<Types::integer>},
    {Opcode::real, 1, kExact | kLinear, infer_part},
    {Opcode::reduce_precision, 1, kExact, infer_reduce_precision},
    {Opcode::round_nearest_afz, 1, kExact, infer_unary<Types::floating>},
    {Opcode::round_nearest_even, 1, kExact, infer_unary<Types::floating>},
    {Opcode::sinh, 1, 0, infer_unary<Types::analytic>},
    {Opcode::tan, 1, 0, infer_unary<Types::analytic>},
    {Opcode::exponential, 1, 0, infer_unary<Types::analytic>, 8},
    {Opcode::exponential_minus_one, 1, 0, infer_unary<Types::analytic>},
    {Opcode::floor, 1, kExact, infer_unary<Types::floating>},
    {Opcode::is_finite, 1, kExact, infer_is_finite},
    {Opcode::log, 1, 0, infer_unary<Types::analytic>, 8},
    {Opcode::log_plus_one, 1, 0, infer_unary<Types::analytic>},
    {Opcode::logistic, 1, 0, infer_unary<Types::analytic>, 8},
    {Opcode::negate, 1, kExact | kLinear, infer_unary<Types::number>},
    {Opcode::not_, 1, kExact, infer_unary<Types::logical>},
    {Opcode::rsqrt, 1, 0, infer_unary<Types::analytic>, 3},
    {Opcode::sign, 1, kExact, infer_unary<Types::number>},
    {Opcode::sine, 1, 0, infer_unary<Types::analytic>, 40},
    {Opcode::sqrt, 1, 0, infer_unary<Types::analytic>, 3},
    {Opcode::tanh, 1, 0, infer_unary<Types::analytic>, 8},
    {Opcode::copy, 1, kExact | kLinear | kDataMovement | kPlacedAnywhere, infer_copy, 1,
     copy_factors},
    {Opcode::convert, 1, kExact, infer_convert},
    {Opcode::add, 2, kExact | kCommutative | kLinear, infer_binary<Types::any>},
    {Opcode::subtract, 2, kExact | kLinear, infer_binary<Types::number>},
    {Opcode::multiply, 2, kExact | kCommutative | kLinearInEach, infer_binary<Types::any>},
    {Opcode::mulhi, 2, kExact | kCommutative, infer_mulhi},
    {Opcode::divide, 2, 0, infer_binary<Types::number>, 3},
    {Opcode::remainder, 2, kExact, infer_binary<Types::real_number>, 40},
    {Opcode::atan2, 2, 0, infer_binary<Types::analytic>},
    {Opcode::complex, 2, kExact | kLinear, infer_complex},
    {Opcode::stochastic_convert, 2, 0, infer_stochastic_convert},
    {Opcode::power, 2, kFirstLeads, infer_binary<Types::number>, 40},
    {Opcode::maximum, 2, kExact | kCommutative, infer_binary<Types::any>},
    {Opcode::minimum, 2, kExact | kCommutative, infer_binary<Types::any>},
    {Opcode::and_, 2, kExact | kCommutative, infer_binary<Types::logical>},
    {Opcode::or_, 2, kExact | kCommutative, infer_binary<Types::logical>},
    {Opcode::xor_, 2, kExact | kCommutative, infer_binary<Types::logical>},
    {Opcode::shift_left, 2, kExact | kFirstLeads, infer_binary<Types::integer>},
    {Opcode::shift_right_arithmetic, 2, kExact | kFirstLeads, infer_binary<Types::integer>},
    {Opcode::shift_right_logical, 2, kExact | kFirstLeads, infer_binary<Types::integer>},
    {Opcode::compare, 2, kExact, infer_compare},
    {Opcode::select, 3, kExact | kDataMovement, infer_select},
    {Opcode::clamp, 3, kExact, infer_clamp},
};

// A copy of a tuple is one of its leaves: each of them lies as it likes.
Node* expand_copy(Node& node) {
  if (!node.shape.is_tuple) return nullptr;
  std::vector<Node*> leaves = hlo::leaves(node.operand(0));
  for (Node*& leaf : leaves)
    if (leaf->shape.dtype != DType::token) leaf = emit(node.parent(), Opcode::copy, {leaf});
  return hlo::from_leaves(node.parent(), node.shape, leaves);
}

std::vector<OpInfo> build_rows() {
  std::vector<OpInfo> rows;
  for (const ElementwiseRow& row : kElementwiseRows) {
    OpInfo& info = rows.emplace_back();
    info.opcode = row.opcode;
    info.traits = row.traits | kElementwise;
    info.operands = {row.operands, row.operands};
    info.infer = row.infer;
    info.factors = row.factors;
    info.additions = row.additions;
  }
  // Their rank may change, so that they are not elementwise as others are.
  const auto bitcast = [&](Opcode opcode, decltype(OpInfo::infer) infer,
                           decltype(OpInfo::factors) factors) {
    OpInfo& info = rows.emplace_back();
    info.opcode = opcode;
    info.traits = kAlias;
    info.batch = batch_as_it_is;
    info.operands = {1, 1};
    info.infer = infer;
    info.factors = factors;
  };
  bitcast(Opcode::bitcast_convert, infer_bitcast_convert, bitcast_convert_factors);
  bitcast(Opcode::bitcast, infer_bitcast, bitcast_factors);
  for (OpInfo& info : rows) {
    info.evaluate = elementwise_evaluate(info.opcode);
    info.completion = kPointwiseCompletion;
    if (info.has(kElementwise)) info.lower = lower_elementwise;
    if (info.opcode == Opcode::copy) info.expand = expand_copy;
    info.gradient = elementwise_gradient(info.opcode);
  }
  return rows;
}

}  // namespace

std::span<const OpInfo> elementwise_rows() {
  static const std::vector<OpInfo> rows = build_rows();
  return rows;
}

}  // namespace gspmd
