#include "gspmd/api/random.h"

#include <cmath>
#include <numbers>

#include "api/emit.h"
#include "api/threefry.h"
#include "gspmd/api/elementwise.h"
#include "gspmd/api/reductions.h"
#include "gspmd/api/shaping.h"
#include "gspmd/api/sorting.h"

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

// [0, 1)
Node* uniform_of(const Bits& bits, DType dtype) {
  return dtype == DType::f32 ? multiply(numerator_f32(bits.x0), 0x1p-24)
                             : multiply(numerator_f64(bits), 0x1p-53);
}

// (0, 1), without either end: the middles of 2^23 or 2^52 parts.
Node* open_uniform_of(const Bits& bits, DType dtype) {
  if (dtype == DType::f32)
    return multiply(add(hlo::convert(shift_right(bits.x0, 9), DType::f32), 0.5), 0x1p-23);
  Node* high = multiply(hlo::convert(shift_right(bits.x0, 6), DType::f64), 0x1p26);
  Node* low = hlo::convert(shift_right(bits.x1, 6), DType::f64);
  return multiply(add(add(high, low), 0.5), 0x1p-52);
}

Node* gumbel_of(const Bits& bits, DType dtype) {
  const auto minus_log = [](Node* x) {
    return hlo::unary(Opcode::negate, hlo::unary(Opcode::log, x));
  };
  return minus_log(minus_log(open_uniform_of(bits, dtype)));
}

// The number type of values drawn for x.
DType drawn_type(const Node* x) { return x->shape.dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace

Tensor random_bits(Operand seed, Dims dims, const RandomOptions& options) {
  return call("random_bits", seed.site(),
              [&] { return tensor_of(random_words(seed, dims, options).x0); });
}

Tensor random_uniform(Operand seed, Dims dims, const RandomOptions& options) {
  return call("random_uniform", seed.site(), [&] {
    check_real(options);
    const Bits bits = random_words(seed, dims, options);
    return tensor_of(uniform_of(bits, options.dtype));
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

// The inverse of the distribution function, of numbers between its values at the two ends.
Tensor random_truncated_normal(Operand seed, double lower, double upper, Dims dims,
                               const RandomOptions& options) {
  return call("random_truncated_normal", seed.site(), [&] {
    check_real(options);
    if (!(lower < upper))
      call_error("lower {} and upper {} are wrong; give lower < upper", lower, upper);
    const double low = std::erf(lower / std::numbers::sqrt2);
    const double high = std::erf(upper / std::numbers::sqrt2);
    Node* u = open_uniform_of(random_words(seed, dims, options), options.dtype);
    const Tensor x = erf_inv(tensor_of(add(multiply(u, high - low), low))) * std::numbers::sqrt2;
    return clip(x, lower, upper);  // what is rounded over an end
  });
}

Tensor random_exponential(Operand seed, Dims dims, const RandomOptions& options) {
  return call("random_exponential", seed.site(), [&] {
    check_real(options);
    Node* u = uniform_of(random_words(seed, dims, options), options.dtype);
    Node* log = hlo::unary(Opcode::log_plus_one, hlo::unary(Opcode::negate, u));
    return tensor_of(hlo::unary(Opcode::negate, log));
  });
}

Tensor random_gumbel(Operand seed, Dims dims, const RandomOptions& options) {
  return call("random_gumbel", seed.site(), [&] {
    check_real(options);
    return tensor_of(gumbel_of(random_words(seed, dims, options), options.dtype));
  });
}

Tensor random_bernoulli(Operand seed, Operand p, Dims dims, const RandomOptions& options) {
  return call("random_bernoulli", seed.site(), [&] {
    check_real(options);
    if (p.is_scalar() && !(p.number() >= 0 && p.number() <= 1))
      call_error("probability {} is wrong; give 0 to 1", p.number());
    Node* u = uniform_of(random_words(seed, dims, options), options.dtype);
    const Tensor chance = broadcast_to(tensor_of(node_of(p, options.dtype)), dims);
    return tensor_of(u) < chance;
  });
}

namespace {

Node* whole_word(const Bits& bits) {
  Node* high = hlo::convert(bits.x0, DType::u64);
  return hlo::binary(Opcode::or_, hlo::binary(Opcode::shift_left, high, splat_like(high, 32)),
                     hlo::convert(bits.x1, DType::u64));
}

}  // namespace

// The rest of 64 bits: no number is more likely than another by more than the width / 2^64.
Tensor random_randint(Operand seed, Dims dims, int64_t low, int64_t high,
                      const RandomIntegerOptions& options) {
  return call("random_randint", seed.site(), [&] {
    if (!is_integer(options.dtype))
      call_error("type {} is none of integers; use s32 or another", dtype_name(options.dtype));
    const double most = static_cast<double>(uint64_t(1) << 32);
    if (low >= high || static_cast<double>(high) - static_cast<double>(low) > most)
      call_error("low {} and high {} are wrong; give low < high, at most 2^32 apart", low, high);
    scalar_node(static_cast<double>(low), true, options.dtype);
    scalar_node(static_cast<double>(high - 1), true, options.dtype);
    Node* word = whole_word(random_words(seed, dims, {.stream = options.stream}));
    Node* rest = hlo::remainder(word, splat_like(word, static_cast<double>(high - low)));
    Node* number = add(hlo::convert(rest, DType::s64), static_cast<double>(low));
    return tensor_of(options.dtype == DType::s64 ? number : hlo::convert(number, options.dtype));
  });
}

Tensor random_permutation(Operand seed, int64_t n, const RandomIntegerOptions& options) {
  return call("random_permutation", seed.site(), [&] {
    if (options.dtype != DType::s32)
      call_error("permutations of type {} are not made; convert() the result",
                 dtype_name(options.dtype));
    if (n < 0) call_error("size {} is negative", n);
    Node* key = whole_word(random_words(seed, {n}, {.stream = options.stream}));
    return argsort(tensor_of(key), {.axis = 0});
  });
}

Tensor random_categorical(Operand seed, Operand logits, const RandomDrawOptions& options) {
  return call("random_categorical", seed.site(), [&] {
    Node* x = node_of(logits);
    need_floating(x);
    const int64_t axis = checked_axis(options.axis, x);
    const DType dtype = drawn_type(x);
    const Bits bits = random_words(seed, x->dims(), {.dtype = dtype, .stream = options.stream});
    Node* own = x->shape.dtype == dtype ? x : hlo::convert(x, dtype);
    return argmax(tensor_of(add(own, gumbel_of(bits, dtype))), {.axis = axis});
  });
}

Tensor dropout(Operand seed, Operand x, double rate, const RandomDrawOptions& options) {
  return call("dropout", seed.site(), [&] {
    Node* node = node_of(x);
    need_floating(node);
    if (!(rate >= 0 && rate <= 1)) call_error("rate {} is wrong; give 0 to 1", rate);
    if (rate == 0) return tensor_of(node);
    if (rate == 1) return tensor_of(splat_like(node, 0));
    const Bits bits = random_words(seed, node->dims(), {.stream = options.stream});
    Node* kept = compare(uniform_of(bits, DType::f32), 1 - rate, Direction::lt);
    return tensor_of(hlo::select(kept, divide(node, 1 - rate), splat_like(node, 0)));
  });
}

}  // namespace gspmd
