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

template <class T>
T load(const Frame& frame, size_t slot, size_t lane) {
  T value;
  std::memcpy(&value, frame.slots[slot].bytes + lane * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void store(const Frame& frame, size_t slot, size_t lane, T value) {
  std::memcpy(frame.slots[slot].bytes + lane * sizeof(T), &value, sizeof(T));
}

template <Opcode kOp>
Function unary_function(DType dtype) {
  return visit_number(dtype, [](auto tag) -> Function {
    using T = typename decltype(tag)::type;
    if constexpr (has_element_op<kOp, T>()) {
      return [](const Step& step, const Frame& frame) {
        using C = ComputeType<T>;
        for (size_t i = 0; i < frame.lanes; ++i)
          store(frame, step.out, i, T(unary_element<kOp, C>(C(load<T>(frame, step.a, i)))));
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
        for (size_t i = 0; i < frame.lanes; ++i) {
          const C a = C(load<T>(frame, step.a, i)), b = C(load<T>(frame, step.b, i));
          store(frame, step.out, i, T(binary_element<kOp, C>(a, b)));
        }
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
        for (size_t i = 0; i < frame.lanes; ++i) {
          const double x = convert_element<double>(load<T>(frame, step.a, i));
          store(frame, step.out, i, convert_element<T>(step.function(x)));
        }
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
          for (size_t i = 0; i < frame.lanes; ++i)
            store(frame, step.out, i,
                  compare_elements(kDirection, total_order(load<T>(frame, step.a, i)),
                                   total_order(load<T>(frame, step.b, i))));
        };
    }
    return [](const Step& step, const Frame& frame) {
      for (size_t i = 0; i < frame.lanes; ++i)
        store(frame, step.out, i,
              compare_elements(kDirection, C(load<T>(frame, step.a, i)),
                               C(load<T>(frame, step.b, i))));
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
  for (size_t i = 0; i < frame.lanes; ++i)
    store(frame, step.out, i, load<T>(frame, load<bool>(frame, step.a, i) ? step.b : step.c, i));
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
        for (size_t i = 0; i < frame.lanes; ++i)
          store(frame, step.out, i, convert_element<To>(load<From>(frame, step.a, i)));
      };
    });
  });
}

struct Row {
  Opcode opcode;
  Function (*function)(DType dtype);
};
template <Opcode kOp>
constexpr Row kUnary{kOp, unary_function<kOp>};
template <Opcode kOp>
constexpr Row kBinary{kOp, binary_function<kOp>};

constexpr Row kRows[] = {
    kUnary<Opcode::abs>,       kUnary<Opcode::negate>,   kUnary<Opcode::not_>,
    kUnary<Opcode::sign>,      kBinary<Opcode::add>,     kBinary<Opcode::subtract>,
    kBinary<Opcode::multiply>, kBinary<Opcode::divide>,  kBinary<Opcode::remainder>,
    kBinary<Opcode::maximum>,  kBinary<Opcode::minimum>, kBinary<Opcode::and_>,
    kBinary<Opcode::or_>,      kBinary<Opcode::xor_>,
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
  for (const Row& row : kRows)
    if (row.opcode == node.opcode()) return row.function(dtype);
  if (complex) return nullptr;
  if (node.is(Opcode::compare)) return compare_function(node);
  if (node.is(Opcode::convert)) return convert_function(dtype, node.shape.dtype);
  return real_function(node.opcode()) ? real_function_step(dtype) : nullptr;
}

}  // namespace gspmd
