#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/narrow.h"
#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

struct NamedCombinerRow {
  Opcode opcode;
  Combiner combiner;
  Combiner of_pred;  // what it is on pred: add is "or", ...
};
constexpr NamedCombinerRow kNamedCombinerRows[] = {
    {Opcode::add, Combiner::sum, Combiner::logical_or},
    {Opcode::multiply, Combiner::product, Combiner::logical_and},
    {Opcode::maximum, Combiner::max, Combiner::logical_or},
    {Opcode::minimum, Combiner::min, Combiner::logical_and},
    {Opcode::and_, Combiner::logical_and, Combiner::logical_and},
    {Opcode::or_, Combiner::logical_or, Combiner::logical_or},
};

// Whether the computation is `(a, b) -> op(a, b)`, in either order, of scalars of one type.
const Node* binary_root(const Computation& computation) {
  const std::vector<Node*>& parameters = computation.parameters();
  const Node* const root = computation.root();
  if (root == nullptr || parameters.size() != 2 || root->operands().size() != 2) return nullptr;
  const Node* const a = root->operand(0);
  const Node* const b = root->operand(1);
  const bool in_order = a == parameters[0] && b == parameters[1];
  if (!in_order && !(a == parameters[1] && b == parameters[0])) return nullptr;
  if (root->shape.is_tuple || root->rank() != 0) return nullptr;
  if (!(a->shape == root->shape) || !(b->shape == root->shape)) return nullptr;
  return root;
}

// The largest number of a type, infinity where it has one.
double largest(DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!is_narrow(dtype)) return kInfinity;
  double most = 0;
  for (int bits = 0; bits < 1 << narrow_bits(dtype); ++bits)
    most = std::fmax(most, narrow_to_double(dtype, static_cast<uint8_t>(bits)));
  return most;
}

double lowest(DType dtype) {  // a scale has no numbers below zero
  return dtype == DType::f8e8m0fnu ? narrow_to_double(dtype, 0) : -largest(dtype);
}

}  // namespace

Computation* binary_computation(Module& module, Opcode opcode, DType dtype) {
  const auto is_it = [&](const Computation* computation) {
    if (computation == nullptr || computation == module.entry()) return false;
    const Node* const root = binary_root(*computation);
    return root != nullptr && root->is(opcode) && root->shape == Shape(dtype, {}) &&
           root->operand(0) == computation->parameters()[0];
  };
  const std::string name = fmt::format("{}_{}", opcode_name(opcode), dtype_name(dtype));
  if (Computation* const named = module.find(name); is_it(named)) return named;
  for (const std::unique_ptr<Computation>& computation : module.computations())
    if (is_it(computation.get())) return computation.get();
  // The combiner serves many places: it carries neither metadata nor phase of the first of them.
  const EmissionScope scope(Metadata{}, false);
  Computation* const made = module.add_computation(name);
  Node* const a = hlo::parameter(*made, 0, Shape(dtype, {}), "a");
  Node* const b = hlo::parameter(*made, 1, Shape(dtype, {}), "b");
  made->set_root(hlo::binary(opcode, a, b));
  return made;
}

std::optional<Combiner> combiner_of(Opcode opcode, DType dtype) {
  const bool extremum = opcode == Opcode::maximum || opcode == Opcode::minimum;
  if (extremum && is_complex(dtype)) return std::nullopt;
  for (const NamedCombinerRow& row : kNamedCombinerRows)
    if (row.opcode == opcode) return dtype == DType::pred ? row.of_pred : row.combiner;
  return std::nullopt;
}

std::optional<Combiner> recognize_combiner(const Computation& computation) {
  const Node* const root = binary_root(computation);
  return root == nullptr ? std::nullopt : combiner_of(root->opcode(), root->shape.dtype);
}

Opcode combiner_opcode(Combiner combiner) {
  for (const NamedCombinerRow& row : kNamedCombinerRows)
    if (row.combiner == combiner) return row.opcode;
  internal_error("combiner: no opcode for {}", combiner_name(combiner));
}

double neutral_contribution(Combiner combiner, DType dtype) {
  if (combiner == Combiner::sum && is_floating(dtype)) return -0.0;
  return combiner_identity(combiner, dtype);
}

double combiner_identity(Combiner combiner, DType dtype) {
  const int bits = is_narrow(dtype) ? narrow_bits(dtype) : static_cast<int>(8 * dtype_size(dtype));
  switch (combiner) {
    case Combiner::sum:
    case Combiner::logical_or:
      return 0;
    case Combiner::product:
      return 1;
    case Combiner::logical_and:  // all bits set; of 64 bits the nearest double, which saturates
      return dtype == DType::pred ? 1 : is_unsigned_integer(dtype) ? std::ldexp(1.0, bits) - 1 : -1;
    case Combiner::max:
      return is_floating(dtype)         ? lowest(dtype)
             : is_signed_integer(dtype) ? -std::ldexp(1.0, bits - 1)
                                        : 0;
    case Combiner::min:
      return is_floating(dtype)         ? largest(dtype)
             : dtype == DType::pred     ? 1
             : is_signed_integer(dtype) ? std::ldexp(1.0, bits - 1) - 1
                                        : std::ldexp(1.0, bits) - 1;
  }
  internal_error("combiner: unknown combiner {}", static_cast<int>(combiner));
}

}  // namespace gspmd
