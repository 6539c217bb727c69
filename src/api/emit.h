#pragma once

#include <vector>

#include "api/trace_state.h"
#include "gspmd/api/math.h"

namespace gspmd::detail {

// Building blocks of the composites: nodes of the running trace in, nodes out.

// The dims that a and b broadcast to; UserError names both shapes.
Dims broadcast_dims(const Node* a, const Node* b);
// numpy's broadcast of x to `dims`; x itself when nothing changes.
Node* broadcast_node(Node* x, const Dims& dims);
// A value without the dims in `reduced` (sorted) stretched back over `dims`.
Node* stretch(Node* reduced_value, const Dims& dims, const std::vector<int64_t>& reduced);
Node* splat_like(const Node* like, double value);

Node* add(Node* a, Node* b);
Node* subtract(Node* a, Node* b);
Node* multiply(Node* a, Node* b);
Node* divide(Node* a, Node* b);
// --- For what 16 bits have too few digits for: in f32 where x has 16 bits, and back
Node* in_32_bits(Node* x);
Node* in_type_of(Node* x, const Node* like);
// With a number of the same dtype.
Node* add(Node* a, double b);
Node* multiply(Node* a, double b);
Node* divide(Node* a, double b);

Node* reverse_node(Node* x, Dims dims);           // x itself where none is named
Node* iota_like(const Node* like, int64_t axis);  // s32, of the dims of `like`

// A copy that stops gradients.
Node* stop_gradient_node(Node* x);

// `axis` counted from the end when negative; UserError when outside the rank of x.
int64_t checked_axis(int64_t axis, const Node* x);
// Sorted, without repetition; UserError names a repeated axis.
std::vector<int64_t> checked_axes(const std::vector<int64_t>& axes, const Node* x);
void need_floating(const Node* x);
void need_number(const Node* x);  // integers, floating or complex
void need_integer(const Node* x, const char* what);

// Which element types a function takes.
enum class Needs : uint8_t {
  floating,
  analytic,  // floating or complex
  real,      // integers or floating
  number,    // all but pred
  integer,
  bits,  // integers or pred
  pred,
  any
};
// UserError says what is needed and how to get it.
void check_needs(const Node* x, Needs needs);

// Two operands of one dtype, broadcast together.
struct Pair {
  Node* a;
  Node* b;
};
Pair broadcast_pair(const Operand& a, const Operand& b, Needs needs);

// Public functions that are one HLO op, element by element.
Tensor unary(const char* op, Opcode opcode, Needs needs, const Operand& x);
Tensor binary(const char* op, Opcode opcode, Needs needs, const Operand& a, const Operand& b);
Tensor compare(const char* op, Direction direction, const Operand& a, const Operand& b);
Node* compare(Node* a, double b, Direction direction);

// The dims that `axes` names, sorted; all of them where it names none.
std::vector<int64_t> axes_of(const Axes& axes, const Node* x);
// `reduced` with the dims that were reduced, of size 1.
Node* keep_dims(Node* reduced, const Node* x, const std::vector<int64_t>& axes);
// Over `axes` with HLO's combiner `opcode`, from its identity.
Node* reduce_with(Opcode opcode, Node* x, const std::vector<int64_t>& axes);

std::string dims_text(const Dims& dims);  // "[2,3]"

}  // namespace gspmd::detail
