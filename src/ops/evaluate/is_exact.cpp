#include <algorithm>
#include <cmath>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "gspmd/ops/evaluate.h"
#include "ops/evaluate/interpreter.h"

namespace gspmd {
namespace {

// The largest integer up to which all are numbers of the type (docs/spec/running.md 3.1).
double exact_bound(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 256;
    case DType::f16:
      return 2048;
    case DType::f32:
      return 16777216;
    default:
      return 9007199254740992;
  }
}

bool is_inexact(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

bool has_floats(const Value& value) {
  if (!value.is_tuple) return is_inexact(value.array.dtype());
  return std::any_of(value.elements.begin(), value.elements.end(), has_floats);
}

// Whether all floats are integers within the bound; integers and pred always are.
bool bounded_integers(const Value& value) {
  if (value.is_tuple)
    return std::all_of(value.elements.begin(), value.elements.end(), bounded_integers);
  if (!is_inexact(value.array.dtype())) return true;
  // Of these only what is moved or chosen counts as exact.
  if (is_complex(value.array.dtype()) || is_narrow(value.array.dtype())) return false;
  const double bound = exact_bound(value.array.dtype());
  return visit_dtype(value.array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> data = value.array.data<T>();
    return std::all_of(data.begin(), data.end(), [&](const T& element) {
      const auto x = static_cast<double>(element);
      return std::fabs(x) <= bound && x == std::trunc(x);
    });
  });
}

// |x|, at least `least`.
Value magnitude(const Value& value, double least) {
  if (!is_floating(value.array.dtype())) return value;
  const Array array = value.array.clone();
  visit_dtype(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_integral_v<T>)
      for (T& x : array.data<T>())
        x = static_cast<T>(std::max(std::fabs(static_cast<double>(x)), least));
  });
  return {array, {}, false};
}

// How an op can lose exactness on floats.
enum class Risk : uint8_t {
  none,   // elements are chosen or moved, never computed: any value is exact
  sums,   // many terms: the sum of their magnitudes has to stay in the bound, in any order
  value,  // one operation: operands and result have to be integers in the bound
  total,  // not integer-preserving
};

Risk risk_of_combiner(const Computation& to_apply, Combiner& combiner) {
  const std::optional<Combiner> known = recognize_combiner(to_apply);
  if (!known) return Risk::total;
  combiner = *known;
  return combiner == Combiner::sum || combiner == Combiner::product ? Risk::sums : Risk::none;
}

Risk risk_of(const Node& node, Combiner& combiner) {
  if (!node.op().has(kIntegerPreserving)) return Risk::total;
  if (node.op().has(kDataMovement) || node.op().has(kConstantLike)) return Risk::none;
  switch (node.opcode()) {
    case Opcode::dot:
    case Opcode::ragged_dot:
    case Opcode::convolution:
      return Risk::sums;
    case Opcode::reduce:
    case Opcode::reduce_window:
    case Opcode::scatter:
      return risk_of_combiner(*node.called[0], combiner);
    case Opcode::select_and_scatter:
      return risk_of_combiner(*node.called[1], combiner);
    case Opcode::maximum:
    case Opcode::minimum:
    case Opcode::clamp:
    case Opcode::compare:
    case Opcode::abs:
    case Opcode::negate:
    case Opcode::sign:
    case Opcode::is_finite:
    // What is inside of called bodies is seen on its own.
    case Opcode::tuple:
    case Opcode::get_tuple_element:
    case Opcode::while_:
    case Opcode::conditional:
    case Opcode::async_start:
    case Opcode::async_update:
    case Opcode::async_done:
    case Opcode::copy_start:
    case Opcode::copy_done:
    case Opcode::add_dependency:
    case Opcode::domain:
    case Opcode::set_dimension_size:
    case Opcode::real:
    case Opcode::imag:
    case Opcode::complex:
    case Opcode::call:
    case Opcode::fusion:
    case Opcode::optimization_barrier:
    case Opcode::custom_call:
      return Risk::none;
    default:
      return Risk::value;
  }
}

double largest_magnitude(const Array& array) {
  double largest = 0;
  for (int64_t i = 0; i < array.size(); ++i) largest = std::max(largest, std::fabs(array.at(i)));
  return largest;
}

// Terms of each sum of a product of two operands; 0: not such an op.
int64_t terms_of_product(const Node& node) {
  int64_t terms = 1;
  if (node.is(Opcode::dot)) {
    for (const int64_t d : node.attrs.dot->lhs_contracting) terms *= node.operand(0)->dim(d);
    return terms;
  }
  if (!node.is(Opcode::convolution)) return 0;
  const int64_t features = node.operand(1)->dim(node.attrs.conv->kernel_output_feature);
  return features == 0 ? 0 : node.operand(1)->shape.elements_count() / features;
}

// Whether sums of products stay in the bound whatever the signs; saves to compute it.
bool small_products(const Node& node, std::span<const Value> operands) {
  const int64_t terms = terms_of_product(node);
  return terms > 0 && static_cast<double>(terms) * largest_magnitude(operands[0].array) *
                              largest_magnitude(operands[1].array) <=
                          exact_bound(node.shape.dtype);
}

bool exact_step(const Node& node, std::span<const Value> operands, const Value& result,
                const CallComputation& call) {
  if (!has_floats(result) && std::none_of(operands.begin(), operands.end(), has_floats))
    return true;
  Combiner combiner = Combiner::sum;
  const Risk risk = risk_of(node, combiner);
  if (risk == Risk::none) return true;
  if (risk == Risk::total || !bounded_integers(result) ||
      !std::all_of(operands.begin(), operands.end(), bounded_integers))
    return false;
  if (node.is(Opcode::convert))  // an integer type may hold more than the float, or less
    for (int64_t i = 0; i < result.array.size(); ++i)
      if (result.array.dtype() != DType::pred && result.array.at(i) != operands[0].array.at(i))
        return false;
  if (risk == Risk::value || small_products(node, operands)) return true;
  // A factor of zero would hide that the others are too large for another order.
  const double least = combiner == Combiner::product ? 1 : 0;
  std::vector<Value> magnitudes;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool selects = node.is(Opcode::select_and_scatter) && i == 0;  // compared, not summed
    magnitudes.push_back(selects ? operands[i] : magnitude(operands[i], least));
  }
  return bounded_integers(evaluate_node(node, magnitudes, call));
}

}  // namespace

bool is_exact(const Module& module, std::span<const Value> arguments, Value* result) {
  if (module.entry() == nullptr)
    user_error("is_exact: module {} has no entry computation", module.name);
  check_runnable(*module.entry(), false);
  check_arguments(*module.entry(), arguments);
  bool exact = true;
  Interpreter plain;
  Interpreter interpreter(
      [&](const Node& node, std::span<const Value> operands, const Value& value) {
        exact = exact && exact_step(node, operands, value, plain.call());
      });
  Value value = interpreter.run(*module.entry(), arguments);
  if (result != nullptr) *result = std::move(value);
  return exact;
}

}  // namespace gspmd
