// The steps of scalar programs: the ops that comparators and combiners are made of. Numbers as the
// op table's evaluation has them; ops that are not here run through the table.

#include <complex>

#include "ops/common/element_ops.h"
#include "ops/common/scalar_program.h"
#include "ops/elementwise/elementwise.h"

namespace gspmd {
namespace {

using Step = ScalarProgram::Step;
using Frame = ScalarProgram::Frame;
using Function = ScalarProgram::Function;

// The lanes of a slot.
template <class T>
T* lanes(const Frame& frame, size_t slot) {
  return reinterpret_cast<T*>(frame.slots[slot].bytes);
}

// out = f(a) and out = f(a, b) in all lanes.
template <class R, class T, class F>
void each_lane(const Step& step, const Frame& frame, F&& f) {
  R* const out = lanes<R>(frame, step.out);
  const T* const a = lanes<T>(frame, step.a);
  for (size_t i = 0, n = frame.lanes; i < n; ++i) out[i] = f(a[i]);
}
template <class R, class T, class F>
void each_pair(const Step& step, const Frame& frame, F&& f) {
  R* const out = lanes<R>(frame, step.out);
  const T* const a = lanes<T>(frame, step.a);
  const T* const b = lanes<T>(frame, step.b);
  for (size_t i = 0, n = frame.lanes; i < n; ++i) out[i] = f(a[i], b[i]);
}

template <Opcode kOp>
Function unary_function(DType dtype) {
  return visit_number(dtype, [](auto tag) -> Function {
    using T = typename decltype(tag)::type;
    if constexpr (has_element_op<kOp, T>()) {
      return [](const Step& step, const Frame& frame) {
        using C = ComputeType<T>;
        each_lane<T, T>(step, frame, [](T a) { return T(unary_element<kOp, C>(C(a))); });
      };
    }
    return nullptr;
  });
}

template <Opcode kOp>
Function binary_function(DType dtype) {
  return visit_number(dtype, [](auto tag) -> Function {
    using T = typename decltype(tag)::type;
    if constexpr (has_element_op<kOp, T>()) {
      return [](const Step& step, const Frame& frame) {
        using C = ComputeType<T>;
        each_pair<T, T>(step, frame,
                        [](T a, T b) { return T(binary_element<kOp, C>(C(a), C(b))); });
      };
    }
    return nullptr;
  });
}

// Of floats, computed in double and rounded once.
Function real_function_step(DType dtype) {
  if (!is_floating(dtype)) return nullptr;
  return visit_dtype(dtype, [](auto tag) -> Function {
    using T = typename decltype(tag)::type;
    if constexpr (is_float_v<T>) {
      return [](const Step& step, const Frame& frame) {
        each_lane<T, T>(step, frame, [function = step.function](T a) {
          return convert_element<T>(function(convert_element<double>(a)));
        });
      };
    }
    return nullptr;
  });
}

template <Direction kDirection>
Function compare_function(DType dtype, bool total) {
  return visit_dtype(dtype, [&](auto tag) -> Function {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    if constexpr (is_float_v<T>) {
      if (total)
        return [](const Step& step, const Frame& frame) {
          each_pair<bool, T>(step, frame, [](T a, T b) {
            return compare_elements(kDirection, total_order(a), total_order(b));
          });
        };
    }
    return [](const Step& step, const Frame& frame) {
      each_pair<bool, T>(step, frame,
                         [](T a, T b) { return compare_elements(kDirection, C(a), C(b)); });
    };
  });
}

Function compare_function(const Node& node) {
  using D = Direction;
  constexpr Function (*kByDirection[])(DType, bool) = {
      compare_function<D::eq>, compare_function<D::ne>, compare_function<D::ge>,
      compare_function<D::gt>, compare_function<D::le>, compare_function<D::lt>};
  return kByDirection[static_cast<size_t>(node.attrs.direction)](
      node.operand(0)->shape.dtype, node.attrs.compare_type == "TOTALORDER");
}

// T: any type of the size of the elements.
template <class T>
void select_step(const Step& step, const Frame& frame) {
  T* const out = lanes<T>(frame, step.out);
  const bool* const chosen = lanes<bool>(frame, step.a);
  const T* const b = lanes<T>(frame, step.b);
  const T* const c = lanes<T>(frame, step.c);
  for (size_t i = 0, n = frame.lanes; i < n; ++i) out[i] = chosen[i] ? b[i] : c[i];
}

Function select_function(DType dtype) {
  switch (dtype_size(dtype)) {
    case 1:
      return select_step<uint8_t>;
    case 2:
      return select_step<uint16_t>;
    case 4:
      return select_step<uint32_t>;
    case 8:
      return select_step<uint64_t>;
    default:
      return select_step<std::complex<double>>;
  }
}

Function convert_function(DType from, DType to) {
  return visit_dtype(from, [&](auto from_tag) {
    using From = typename decltype(from_tag)::type;
    return visit_dtype(to, [](auto to_tag) -> Function {
      using To = typename decltype(to_tag)::type;
      return [](const Step& step, const Frame& frame) {
        each_lane<To, From>(step, frame, [](From a) { return convert_element<To>(a); });
      };
    });
  });
}

struct ScalarFunctionRow {
  Opcode opcode;
  Function (*function)(DType dtype);
};
template <Opcode kOp>
constexpr ScalarFunctionRow kUnaryFunction{kOp, unary_function<kOp>};
template <Opcode kOp>
constexpr ScalarFunctionRow kBinaryFunction{kOp, binary_function<kOp>};

constexpr ScalarFunctionRow kScalarFunctionsRows[] = {
    kUnaryFunction<Opcode::abs>,        kUnaryFunction<Opcode::negate>,
    kUnaryFunction<Opcode::not_>,       kUnaryFunction<Opcode::sign>,
    kBinaryFunction<Opcode::add>,       kBinaryFunction<Opcode::subtract>,
    kBinaryFunction<Opcode::multiply>,  kBinaryFunction<Opcode::divide>,
    kBinaryFunction<Opcode::remainder>, kBinaryFunction<Opcode::maximum>,
    kBinaryFunction<Opcode::minimum>,   kBinaryFunction<Opcode::and_>,
    kBinaryFunction<Opcode::or_>,       kBinaryFunction<Opcode::xor_>,
};

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
  if (node.is(Opcode::select)) return select_function(node.shape.dtype);
  const DType dtype = node.operand(0)->shape.dtype;
  const bool complex = is_complex(dtype);
  if (!all_of(node, complex ? is_complex : is_real)) return nullptr;
  for (const ScalarFunctionRow& row : kScalarFunctionsRows)
    if (row.opcode == node.opcode()) return row.function(dtype);
  if (complex) return nullptr;
  if (node.is(Opcode::compare)) return compare_function(node);
  if (node.is(Opcode::convert)) return convert_function(dtype, node.shape.dtype);
  return real_function(node.opcode()) ? real_function_step(dtype) : nullptr;
}

}  // namespace gspmd
