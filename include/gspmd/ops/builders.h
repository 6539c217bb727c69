#pragma once

// Building instructions.

#include <span>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/op.h"

namespace gspmd {

// Emits one node at the end of `c`: operand count checked, shape inferred, backward phase and
// metadata taken from `c`'s current emission state. `declared` is needed by ops whose result is not
// implied. All operands must be nodes of `c`. UserError as the op's infer says.
GSPMD_API Node* emit(Computation& c, Opcode opcode, std::vector<Node*> operands,
                     Attributes attrs = {}, Shape declared = {},
                     std::vector<Computation*> called = {});

// While alive, emitted nodes carry this metadata / backward mark. Nested scopes restore.
class GSPMD_API EmissionScope {
 public:
  // --- `backward` is kept where it is not given
  explicit EmissionScope(Metadata metadata);
  EmissionScope(Metadata metadata, bool backward);
  EmissionScope(const EmissionScope&) = delete;
  EmissionScope& operator=(const EmissionScope&) = delete;
  ~EmissionScope();

 private:
  Metadata saved_metadata_;
  bool saved_backward_;
};

// Named builders; shapes as HLO's. Binary elementwise need equal dims and dtypes.
namespace hlo {
// --- Each as HLO's op of its name; UserError as emit()
GSPMD_API Node* parameter(Computation& c, int64_t number, Shape shape, std::string name = {});
GSPMD_API Node* constant(Computation& c, Array literal);
GSPMD_API Node* scalar(Computation& c, DType dtype, double value);
GSPMD_API Node* splat(Computation& c, const Shape& shape,
                      double value);  // broadcast of a scalar constant
GSPMD_API Node* iota(Computation& c, Shape shape, int64_t dimension);
GSPMD_API Node* tuple(Computation& c, std::vector<Node*> elements);
GSPMD_API Node* get_tuple_element(Node* tuple, int64_t index);
// The leaves of a value in order; those of a tuple op are its operands themselves.
GSPMD_API std::vector<Node*> leaves(Node* value);
// A value of `shape` made of its leaves: an array is its only leaf, a tuple is made anew.
GSPMD_API Node* from_leaves(Computation& c, const Shape& shape, std::span<Node* const> leaves);
// The arrays behind a barrier: none of them is read before all are there.
GSPMD_API std::vector<Node*> optimization_barrier(std::vector<Node*> values);
// --- Each as HLO's op of its name; UserError as emit()
GSPMD_API Node* convert(Node* x, DType dtype);
GSPMD_API Node* reshape(Node* x, Dims dims);
GSPMD_API Node* broadcast(Node* x, Dims dims,
                          Dims dimensions);  // operand dim i becomes result dim dimensions[i]
GSPMD_API Node* transpose(Node* x, Dims permutation);
GSPMD_API Node* concatenate(std::vector<Node*> xs, int64_t dim);
GSPMD_API Node* pad(Node* x, Node* value, std::vector<PaddingDim> padding);
GSPMD_API Node* slice(Node* x, Dims starts, Dims limits, Dims strides);
GSPMD_API Node* dynamic_slice(Node* x, std::vector<Node*> starts, Dims sizes);
GSPMD_API Node* dynamic_update_slice(Node* x, Node* update, std::vector<Node*> starts);
GSPMD_API Node* select(Node* pred, Node* on_true, Node* on_false);
GSPMD_API Node* compare(Node* a, Node* b, Direction direction);
GSPMD_API Node* unary(Opcode opcode, Node* x);
GSPMD_API Node* binary(Opcode opcode, Node* a, Node* b);
GSPMD_API Node* add(Node* a, Node* b);
GSPMD_API Node* subtract(Node* a, Node* b);
GSPMD_API Node* multiply(Node* a, Node* b);
GSPMD_API Node* divide(Node* a, Node* b);
GSPMD_API Node* remainder(Node* a, Node* b);
GSPMD_API Node* dot(Node* lhs, Node* rhs, DotDims dims);
GSPMD_API Node* gather(Node* operand, Node* indices, GatherDims dims, Dims slice_sizes);
GSPMD_API Node* scatter(Node* operand, Node* indices, Node* updates, ScatterDims dims,
                        Computation* combiner);
GSPMD_API Node* reduce(Node* x, Node* init, Dims dims, Computation* combiner);
GSPMD_API Node* reduce_sum(Node* x, Dims dims);
GSPMD_API Node* reduce_max(Node* x, Dims dims);
}  // namespace hlo

// The computation (a, b) -> opcode(a, b) on scalars of `dtype`; made once per module and reused.
GSPMD_API Computation* binary_computation(Module& module, Opcode opcode, DType dtype);
// The combiner that a binary op on `dtype` is. The lexicographic extrema of complex numbers are
// none: their identities, infinite in both parts, are no real number.
GSPMD_API std::optional<Combiner> combiner_of(Opcode opcode, DType dtype);
// The combiner that a to_apply computation is, if it is one node of add, multiply, max, min, and,
// or.
GSPMD_API std::optional<Combiner> recognize_combiner(const Computation& computation);
GSPMD_API Opcode combiner_opcode(Combiner combiner);  // Opcode::add for sum, and so on
GSPMD_API double combiner_identity(Combiner combiner, DType dtype);  // 0, 1, -inf or lowest, ...
// As combiner_identity, but -0.0 for float sums: x + -0.0 has the bits of x, for -0.0 too. What a
// device without a share contributes.
GSPMD_API double neutral_contribution(Combiner combiner, DType dtype);

}  // namespace gspmd
