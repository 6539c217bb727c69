#include "tools/rounding_noise.h"

#include <algorithm>
#include <cmath>

#include "gspmd/ir/op.h"
#include "ops/evaluate/interpreter.h"
#include "tools/compare.h"
#include "tools/elements.h"
#include "tools/inputs.h"

namespace gspmd::tools {
namespace {

constexpr int kRuns = 2;

// Half of the distance from 1 to the next number.
double unit_of_rounding(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::c128:
      return 0x1p-53;
    case DType::f32:
    case DType::c64:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::f8e3m4:
      return 0x1p-5;
    case DType::f6e3m2fn:
    case DType::f8e5m2:
    case DType::f8e5m2fnuz:
      return 0x1p-3;
    case DType::f4e2m1fn:
      return 0x1p-2;
    case DType::f8e8m0fnu:
      return 0x1p-1;
    default:
      return 0x1p-4;  // short floats of three bits of mantissa
  }
}

bool rounds(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

// Ops that choose or move numbers and compute none.
bool chooses(const Node& node) {
  if (node.op().has(kDataMovement) || node.op().has(kConstantLike) || node.shape.is_tuple)
    return true;
  switch (node.opcode()) {
    case Opcode::maximum:
    case Opcode::minimum:
    case Opcode::clamp:
    case Opcode::negate:
    case Opcode::abs:
    case Opcode::sign:
    case Opcode::floor:
    case Opcode::ceil:
    case Opcode::select:
    case Opcode::real:
    case Opcode::imag:
    case Opcode::complex:
    case Opcode::get_tuple_element:
    case Opcode::optimization_barrier:
    case Opcode::custom_call:
    case Opcode::sort:
    case Opcode::call:
    case Opcode::fusion:
    case Opcode::while_:
    case Opcode::conditional:
      return true;
    default:
      return false;
  }
}

bool sums_many(const Node& node) {
  switch (node.opcode()) {
    case Opcode::dot:
    case Opcode::ragged_dot:
    case Opcode::convolution:
    case Opcode::reduce:
    case Opcode::reduce_window:
    case Opcode::scatter:
    case Opcode::select_and_scatter:
      return true;
    default:
      return false;
  }
}

Value magnitudes(const Value& value) {
  const DType dtype = value.array.dtype();
  if (value.is_tuple || !is_floating(dtype)) return value;
  const Array array = value.array.clone();
  for (int64_t i = 0; i < array.size(); ++i)
    set_element(array, i, std::fabs(part_of(element_at(array, i), 0)));
  return {array, {}, false};
}

class Shaker {
 public:
  explicit Shaker(uint64_t seed) : state_(seed) {}

  void shake(const Node& node, std::span<const Value> operands, const Value& result,
             const CallComputation& call) {
    const DType dtype = result.array.dtype();
    if (result.is_tuple || chooses(node) || !rounds(dtype)) return;
    for (const Value& operand : operands)  // the operand itself: nothing was computed
      if (!operand.is_tuple && operand.array.storage() == result.array.storage()) return;
    Array terms = result.array;
    if (sums_many(node) && is_floating(dtype)) {
      std::vector<Value> absolute;
      for (const Value& operand : operands) absolute.push_back(magnitudes(operand));
      terms = evaluate_node(node, absolute, call).array;
    }
    change(result.array, terms, 2 * unit_of_rounding(dtype));
  }

 private:
  double uniform() {  // [-1, 1), splitmix64
    uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-52 - 1;
  }

  void change(const Array& array, const Array& terms, double unit) {
    const bool complex = is_complex(array.dtype());
    for (int64_t i = 0; i < array.size(); ++i) {
      const Element x = element_at(array, i);
      const Element t = element_at(terms, i);
      double size = std::fabs(part_of(t, 0));
      if (complex) size = std::max(size, std::fabs(part_of(t, 1)));
      if (size == 0 || !std::isfinite(size)) continue;
      const double real = part_of(x, 0) + uniform() * unit * size;
      set_element(array, i, real, complex ? part_of(x, 1) + uniform() * unit * size : 0);
    }
  }

  uint64_t state_;
};

}  // namespace

std::vector<double> rounding_noise(const Module& single, std::span<const Array> inputs,
                                   std::span<const Array> results) {
  std::vector<double> noise(results.size());
  for (int run = 0; run < kRuns; ++run) {
    Shaker shaker(static_cast<uint64_t>(run));
    Interpreter plain;
    Interpreter interpreter(
        [&](const Node& node, std::span<const Value> operands, const Value& result) {
          shaker.shake(node, operands, result, plain.call());
        });
    const Value value = interpreter.run(*single.entry(), pack_arguments(single, inputs));
    const std::vector<double> moved = noise_between(leaves(value), results);
    for (size_t i = 0; i < noise.size(); ++i) noise[i] = std::max(noise[i], moved[i]);
  }
  return noise;
}

}  // namespace gspmd::tools
