// The steps of scalar programs: the ops that comparators and combiners are made of. Numbers as the
// op table's evaluation has them; ops that are not here run through the table.

#include <cmath>
#include <complex>
#include <limits>

#include "ops/common/numeric.h"
#include "ops/common/scalar_program.h"

namespace gspmd {
namespace {

using Step = ScalarProgram::Step;
using Frame = ScalarProgram::Frame;
using Function = ScalarProgram::Function;

template <class T>
T load(const Frame& frame, size_t slot) {
  T value;
  std::memcpy(&value, frame.slots[slot].bytes, sizeof(T));
  return value;
}
template <class T>
void store(const Frame& frame, size_t slot, T value) {
  std::memcpy(frame.slots[slot].bytes, &value, sizeof(T));
}

template <class T>
T divide_elements(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a / b;
  } else {
    if (b == T(0)) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return static_cast<T>(uint64_t(0) - static_cast<uint64_t>(a));
    return static_cast<T>(a / b);
  }
}

template <class T>
T subtract_elements(T a, T b) {
  if constexpr (std::is_floating_point_v<T> || is_complex_v<T>)
    return a - b;
  else
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

template <Opcode kOp, class T>
constexpr bool has_binary() {
  if constexpr (is_complex_v<T>)
    return kOp == Opcode::add || kOp == Opcode::subtract || kOp == Opcode::multiply;
  else if constexpr (kOp == Opcode::and_ || kOp == Opcode::or_ || kOp == Opcode::xor_)
    return std::is_integral_v<T>;
  else if constexpr (kOp == Opcode::subtract || kOp == Opcode::divide)
    return !std::is_same_v<T, bool>;
  else
    return true;
}

template <Opcode kOp, class T>
T binary_value(T a, T b) {
  if constexpr (kOp == Opcode::add) return add_elements(a, b);
  if constexpr (kOp == Opcode::subtract) return subtract_elements(a, b);
  if constexpr (kOp == Opcode::multiply) return multiply_elements(a, b);
  if constexpr (kOp == Opcode::divide) return divide_elements(a, b);
  if constexpr (kOp == Opcode::maximum) return maximum(a, b);
  if constexpr (kOp == Opcode::minimum) return minimum(a, b);
  if constexpr (kOp == Opcode::and_) return static_cast<T>(a & b);
  if constexpr (kOp == Opcode::or_) return static_cast<T>(a | b);
  if constexpr (kOp == Opcode::xor_) return static_cast<T>(a ^ b);
}

template <Opcode kOp>
Function binary_function(DType dtype) {
  return visit_number(dtype, [](auto tag) -> Function {
    using T = typename decltype(tag)::type;
    if constexpr (has_binary<kOp, T>()) {
      return [](const Step& step, const Frame& frame) {
        using C = ComputeType<T>;
        const C a = C(load<T>(frame, step.a)), b = C(load<T>(frame, step.b));
        store(frame, step.out, T(binary_value<kOp, C>(a, b)));
      };
    }
    return nullptr;
  });
}

// Of floats, computed in double and rounded once.
template <double (*kFunction)(double)>
Function math_function(DType dtype) {
  if (!is_floating(dtype)) return nullptr;
  return visit_dtype(dtype, [](auto tag) -> Function {
    using T = typename decltype(tag)::type;
    if constexpr (is_float_v<T>) {
      return [](const Step& step, const Frame& frame) {
        const double x = convert_element<double>(load<T>(frame, step.a));
        store(frame, step.out, convert_element<T>(kFunction(x)));
      };
    }
    return nullptr;
  });
}

Function negate_function(DType dtype) {
  return visit_dtype(dtype, [](auto tag) -> Function {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>) {
      return [](const Step& step, const Frame& frame) {
        const T x = load<T>(frame, step.a);
        if constexpr (is_float_v<T>)
          store(frame, step.out, T(-ComputeType<T>(x)));
        else
          store(frame, step.out, static_cast<T>(uint64_t(0) - static_cast<uint64_t>(x)));
      };
    }
    return nullptr;
  });
}

Function not_function(DType dtype) {
  return visit_dtype(dtype, [](auto tag) -> Function {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      return [](const Step& step, const Frame& frame) {
        const T x = load<T>(frame, step.a);
        if constexpr (std::is_same_v<T, bool>)
          store(frame, step.out, !x);
        else
          store(frame, step.out, static_cast<T>(~x));
      };
    }
    return nullptr;
  });
}

double absolute(double x) { return std::fabs(x); }
double exponential(double x) { return std::exp(x); }
double exponential_minus_one(double x) { return std::expm1(x); }
double logarithm(double x) { return std::log(x); }
double logarithm_plus_one(double x) { return std::log1p(x); }
double square_root(double x) { return std::sqrt(x); }
double hyperbolic_tangent(double x) { return std::tanh(x); }

// Bits of a float as an integer that orders -NaN < -inf < ... < -0 < +0 < ... < NaN.
template <class T>
int64_t total_order(T value) {
  using U = std::conditional_t<sizeof(T) == 2, int16_t,
                               std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>;
  U bits;
  std::memcpy(&bits, &value, sizeof(T));
  return bits < 0 ? static_cast<U>(bits ^ std::numeric_limits<U>::max()) : bits;
}

template <Direction kDirection, class T>
bool compare_values(T a, T b) {
  if constexpr (kDirection == Direction::eq) return a == b;
  if constexpr (kDirection == Direction::ne) return a != b;
  if constexpr (kDirection == Direction::ge) return a >= b;
  if constexpr (kDirection == Direction::gt) return a > b;
  if constexpr (kDirection == Direction::le) return a <= b;
  if constexpr (kDirection == Direction::lt) return a < b;
}

template <Direction kDirection>
Function directed_compare(DType dtype, bool total) {
  return visit_dtype(dtype, [&](auto tag) -> Function {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    if constexpr (is_float_v<T>) {
      if (total)
        return [](const Step& step, const Frame& frame) {
          store(frame, step.out,
                compare_values<kDirection>(total_order(load<T>(frame, step.a)),
                                           total_order(load<T>(frame, step.b))));
        };
    }
    return [](const Step& step, const Frame& frame) {
      store(frame, step.out,
            compare_values<kDirection>(C(load<T>(frame, step.a)), C(load<T>(frame, step.b))));
    };
  });
}

Function compare_function(const Node& node) {
  const DType dtype = node.operand(0)->shape.dtype;
  const bool total = node.attrs.compare_type == "TOTALORDER";
  switch (node.attrs.direction) {
    case Direction::eq:
      return directed_compare<Direction::eq>(dtype, total);
    case Direction::ne:
      return directed_compare<Direction::ne>(dtype, total);
    case Direction::ge:
      return directed_compare<Direction::ge>(dtype, total);
    case Direction::gt:
      return directed_compare<Direction::gt>(dtype, total);
    case Direction::le:
      return directed_compare<Direction::le>(dtype, total);
    case Direction::lt:
      return directed_compare<Direction::lt>(dtype, total);
  }
  return nullptr;
}

void select_step(const Step& step, const Frame& frame) {
  const size_t from = load<bool>(frame, step.a) ? step.b : step.c;
  frame.slots[step.out] = frame.slots[from];
}

Function convert_function(DType from, DType to) {
  return visit_dtype(from, [&](auto from_tag) {
    using From = typename decltype(from_tag)::type;
    return visit_dtype(to, [](auto to_tag) -> Function {
      using To = typename decltype(to_tag)::type;
      return [](const Step& step, const Frame& frame) {
        store(frame, step.out, convert_element<To>(load<From>(frame, step.a)));
      };
    });
  });
}

bool all_of(const Node& node, bool (*accepts)(DType)) {
  if (!accepts(node.shape.dtype)) return false;
  for (const Node* operand : node.operands())
    if (!accepts(operand->shape.dtype)) return false;
  return true;
}
bool is_real(DType dtype) { return is_computable(dtype) && !is_complex(dtype); }

}  // namespace

ScalarProgram::Function scalar_function(const Node& node) {
  if (node.operands().empty()) return nullptr;
  if (node.is(Opcode::select)) return select_step;
  const DType dtype = node.operand(0)->shape.dtype;
  if (is_complex(dtype) && !all_of(node, is_complex)) return nullptr;
  if (!is_complex(dtype) && !all_of(node, is_real)) return nullptr;
  switch (node.opcode()) {
    case Opcode::add:
      return binary_function<Opcode::add>(dtype);
    case Opcode::subtract:
      return binary_function<Opcode::subtract>(dtype);
    case Opcode::multiply:
      return binary_function<Opcode::multiply>(dtype);
    default:
      break;
  }
  if (is_complex(dtype)) return nullptr;
  switch (node.opcode()) {
    case Opcode::divide:
      return binary_function<Opcode::divide>(dtype);
    case Opcode::maximum:
      return binary_function<Opcode::maximum>(dtype);
    case Opcode::minimum:
      return binary_function<Opcode::minimum>(dtype);
    case Opcode::and_:
      return binary_function<Opcode::and_>(dtype);
    case Opcode::or_:
      return binary_function<Opcode::or_>(dtype);
    case Opcode::xor_:
      return binary_function<Opcode::xor_>(dtype);
    case Opcode::compare:
      return compare_function(node);
    case Opcode::convert:
      return convert_function(dtype, node.shape.dtype);
    case Opcode::negate:
      return negate_function(dtype);
    case Opcode::not_:
      return not_function(dtype);
    case Opcode::abs:
      return math_function<absolute>(dtype);
    case Opcode::exponential:
      return math_function<exponential>(dtype);
    case Opcode::exponential_minus_one:
      return math_function<exponential_minus_one>(dtype);
    case Opcode::log:
      return math_function<logarithm>(dtype);
    case Opcode::log_plus_one:
      return math_function<logarithm_plus_one>(dtype);
    case Opcode::sqrt:
      return math_function<square_root>(dtype);
    case Opcode::tanh:
      return math_function<hyperbolic_tangent>(dtype);
    default:
      return nullptr;
  }
}

}  // namespace gspmd
