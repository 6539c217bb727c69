#include "gspmd/api/random.h"

#include <numbers>

#include "api/emit.h"
#include "api/threefry.h"

namespace gspmd {

using namespace detail;

namespace {

// Words of a trace: every operation emits an instruction on u32 values.
struct TracedWords {
  using Word = Node*;
  Computation* c;
  Dims dims;

  Word add(Word a, Word b) const { return detail::add(a, b); }
  Word exclusive_or(Word a, Word b) const { return hlo::binary(Opcode::xor_, a, b); }
  Word rotate_left(Word x, int bits) const {
    Node* high = hlo::binary(Opcode::shift_left, x, splat_like(x, bits));
    Node* low = hlo::binary(Opcode::shift_right_logical, x, splat_like(x, 32 - bits));
    return hlo::binary(Opcode::or_, high, low);
  }
  Word add_number(Word a, uint32_t b) const { return detail::add(a, static_cast<double>(b)); }
  Word widen(Word key) const { return dims.empty() ? key : hlo::broadcast(key, dims, {}); }
  Word parity() const { return hlo::scalar(*c, DType::u32, kThreefryParity); }
};

struct Bits {
  Node* x0;
  Node* x1;
};

Node* seed_word(const Operand& seed) {
  if (seed.is_scalar()) {
    if (!seed.is_integral() || seed.number() < 0 || seed.number() > 4294967295.0)
      call_error("seed {} is wrong; give an integer from 0 to 4294967295", seed.number());
    return scalar_node(seed.number(), true, DType::u32);
  }
  Node* node = node_of(seed);
  if (node->rank() != 0) call_error("the seed {} must be one integer without dims", describe(node));
  need_integer(node, "seeds");
  return node->shape.dtype == DType::u32 ? node : hlo::convert(node, DType::u32);
}

// The row-major index over dims [begin, end), as u32 of the whole shape: zero where there are none.
Node* linear_index(const TracedWords& words, size_t begin, size_t end) {
  const Shape counts(DType::u32, words.dims);
  Node* index = nullptr;
  int64_t stride = 1;
  for (size_t i = end; i-- > begin;) {
    if (words.dims[i] > 1) {
      Node* term = hlo::iota(*words.c, counts, static_cast<int64_t>(i));
      if (stride != 1) term = multiply(term, static_cast<double>(stride));
      index = index ? detail::add(term, index) : term;
    }
    stride *= words.dims[i];
  }
  return index ? index : words.widen(hlo::scalar(*words.c, DType::u32, 0));
}

void check_random(const Dims& dims, const RandomOptions& options) {
  for (const int64_t d : dims)
    if (d < 0) call_error("size {} is negative", d);
  if (options.stream < 0 || options.stream > 4294967295)
    call_error("stream {} is wrong; give 0 to 4294967295", options.stream);
}

Bits random_words(const Operand& seed, const Dims& dims, const RandomOptions& options) {
  check_random(dims, options);
  const TracedWords words{&trace_of_call().here(), dims};
  // The counter is the global row-major index: its low word over trailing dims that stay below
  // 2^32.
  size_t split = dims.size();
  int64_t below = 1;
  while (split > 0 && saturating_multiply(below, dims[split - 1]) <= (int64_t{1} << 32))
    below *= dims[--split];
  Node* key0 = seed_word(seed);
  Node* key1 = scalar_node(static_cast<double>(options.stream), true, DType::u32);
  Node* low = linear_index(words, split, dims.size());
  Node* high = linear_index(words, 0, split);
  const auto out = threefry(words, key0, key1, low, high);
  return {out[0], out[1]};
}

Node* shift_right(Node* x, int bits) {
  return hlo::binary(Opcode::shift_right_logical, x, splat_like(x, bits));
}

// `steps` of 2^-24 (or 2^-53): the numerator of a uniform number.
Node* numerator_f32(Node* x) { return hlo::convert(shift_right(x, 8), DType::f32); }

void check_real(const RandomOptions& options) {
  if (options.dtype != DType::f32 && options.dtype != DType::f64)
    call_error("numbers of type {} are not made; use f32 or f64, and convert() the result",
               dtype_name(options.dtype));
}

Node* numerator_f64(const Bits& bits) {
  Node* high = multiply(hlo::convert(shift_right(bits.x0, 5), DType::f64), 0x1p26);
  return add(high, hlo::convert(shift_right(bits.x1, 6), DType::f64));
}

// sqrt(-2 log(u1)) cos(2 pi u2), u1 in (0, 1]: Box and Muller.
Node* box_muller(Node* u1, Node* u2) {
  Node* radius = hlo::unary(Opcode::sqrt, multiply(hlo::unary(Opcode::log, u1), -2));
  return multiply(radius, hlo::unary(Opcode::cosine, multiply(u2, 2 * std::numbers::pi)));
}

}  // namespace

Tensor random_bits(Operand seed, Dims dims, const RandomOptions& options) {
  return call("random_bits", seed.site(),
              [&] { return tensor_of(random_words(seed, dims, options).x0); });
}

Tensor random_uniform(Operand seed, Dims dims, const RandomOptions& options) {
  return call("random_uniform", seed.site(), [&] {
    check_real(options);
    const Bits bits = random_words(seed, dims, options);
    return tensor_of(options.dtype == DType::f32 ? multiply(numerator_f32(bits.x0), 0x1p-24)
                                                 : multiply(numerator_f64(bits), 0x1p-53));
  });
}

Tensor random_normal(Operand seed, Dims dims, const RandomOptions& options) {
  return call("random_normal", seed.site(), [&] {
    check_real(options);
    const Bits bits = random_words(seed, dims, options);
    Node* u1 = multiply(add(numerator_f32(bits.x0), 1), 0x1p-24);
    Node* u2 = multiply(numerator_f32(bits.x1), 0x1p-24);
    if (options.dtype == DType::f64) {
      u1 = multiply(add(hlo::convert(bits.x0, DType::f64), 1), 0x1p-32);
      u2 = multiply(hlo::convert(bits.x1, DType::f64), 0x1p-32);
    }
    return tensor_of(box_muller(u1, u2));
  });
}

}  // namespace gspmd
