// Random numbers by global index: the counters of a device's part are worked out from the part's
// offset, so that every sharding gives the numbers of one device, and each device makes its own.

#include <array>
#include <numbers>

#include "gspmd/ir/partition_context.h"
#include "gspmd/ops/builders.h"
#include "mesh/manual_digits.h"
#include "ops/common/in_dim.h"
#include "ops/emission/exchange.h"
#include "ops/emission/index.h"
#include "ops/random/bits.h"

namespace gspmd {
namespace {

using hlo::add;
using hlo::multiply;
Node* exclusive_or(Node* a, Node* b) { return hlo::binary(Opcode::xor_, a, b); }

// A number of any 64 bits, as large as `like`.
Node* constant_like(Node* like, uint64_t value) {
  Array literal(like->shape.dtype, {});
  if (like->shape.dtype == DType::u64)
    literal.data<uint64_t>()[0] = value;
  else
    literal.data<uint32_t>()[0] = static_cast<uint32_t>(value);
  Node* scalar = hlo::constant(like->parent(), literal);
  return like->rank() == 0 ? scalar : hlo::broadcast(scalar, like->dims(), {});
}

Node* as_large_as(Node* like, Node* scalar) {
  return like->rank() == 0 ? scalar : hlo::broadcast(scalar, like->dims(), {});
}

Node* shifted_right(Node* x, uint64_t bits) {
  return hlo::binary(Opcode::shift_right_logical, x, constant_like(x, bits));
}

// The two halves of u64 numbers, low first, and one number of two.
std::array<Node*, 2> halves(Node* x) {
  return {hlo::convert(hlo::binary(Opcode::and_, x, constant_like(x, 0xFFFFFFFFu)), DType::u32),
          hlo::convert(shifted_right(x, 32), DType::u32)};
}
Node* joined(Node* low, Node* high) {
  Node* wide = hlo::convert(high, DType::u64);
  wide = hlo::binary(Opcode::shift_left, wide, constant_like(wide, 32));
  return hlo::binary(Opcode::or_, wide, hlo::convert(low, DType::u64));
}

// As threefry_2x32 (ops/random_bits.h); the key is of scalars.
std::array<Node*, 2> emit_threefry(const std::array<Node*, 2>& key, std::array<Node*, 2> x) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  Node* both = exclusive_or(key[0], key[1]);
  const std::array<Node*, 3> keys{key[0], key[1],
                                  exclusive_or(both, constant_like(both, 0x1BD11BDAu))};
  x = {add(x[0], as_large_as(x[0], keys[0])), add(x[1], as_large_as(x[1], keys[1]))};
  for (uint32_t group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      x[0] = add(x[0], x[1]);
      const auto left = static_cast<uint64_t>(rotation);
      Node* high = hlo::binary(Opcode::shift_left, x[1], constant_like(x[1], left));
      Node* turned = hlo::binary(Opcode::or_, high, shifted_right(x[1], 32 - left));
      x[1] = exclusive_or(turned, x[0]);
    }
    Node* next = keys[(group + 2) % 3];
    x[0] = add(x[0], as_large_as(x[0], keys[(group + 1) % 3]));
    x[1] = add(x[1], as_large_as(x[1], add(next, constant_like(next, group + 1))));
  }
  return x;
}

// As philox_4x32; the key is of scalars.
std::array<Node*, 4> emit_philox(std::array<Node*, 2> key, std::array<Node*, 4> x) {
  const auto product = [](Node* a, uint64_t b) {
    Node* wide = hlo::convert(a, DType::u64);
    return halves(multiply(wide, constant_like(wide, b)));
  };
  for (int round = 0; round < 10; ++round) {
    const auto first = product(x[0], 0xD2511F53u), second = product(x[2], 0xCD9E8D57u);
    x = {exclusive_or(exclusive_or(second[1], x[1]), as_large_as(x[0], key[0])), second[0],
         exclusive_or(exclusive_or(first[1], x[3]), as_large_as(x[0], key[1])), first[0]};
    key = {add(key[0], constant_like(key[0], 0x9E3779B9u)),
           add(key[1], constant_like(key[1], 0xBB67AE85u))};
  }
  return x;
}

// One device's part of an array of random numbers in a layout.
class RandomPart {
 public:
  RandomPart(PartitionContext& spmd, const Dims& global, const Sharding& layout)
      : spmd_(spmd),
        global_(global),
        layout_(layout),
        local_(local_shape(Shape(DType::u64, global), layout).dims) {}

  const Dims& local() const { return local_; }

  // Row-major positions of the part's elements in the whole, u64 of the part's shape.
  Node* positions() { return linear(local_, local_.size(), {}); }

  // threefry_bits: of 32 bits and less two numbers come from one counter.
  Node* threefry(const std::vector<Node*>& state, int bits) {
    const auto key = halves(state[0]);
    if (bits > 32) {
      Node* at = positions();
      const auto x = emit_threefry(key, halves(add(at, as_large_as(at, state[1]))));
      return joined(x[0], x[1]);
    }
    const size_t d = halved_dim(global_);
    const int64_t size = local_[d];
    const bool odd = !layout_.dim(static_cast<int64_t>(d)).empty() && size % 2 != 0;
    Dims rows = local_;  // pairs that the part has elements of
    rows[d] = odd ? size / 2 + 1 : ceil_div(size, 2);
    Node* begin = start(d);
    Node* at = linear(rows, rows.size(), {{d, ceil_div(global_[d], 2), half(begin)}});
    const auto x = emit_threefry(key, halves(add(at, as_large_as(at, state[1]))));
    Node* numbers = interleaved({x[0], x[1]}, d);
    return cut(numbers, d, odd ? remainder(begin, 2) : nullptr, size);
  }

  // philox_bits: four numbers of 32 bits or two of 64 from one counter, in row-major order.
  Node* philox(const std::vector<Node*>& state, int bits) {
    const int64_t each = bits > 32 ? 2 : 4;
    size_t d = 0;  // behind it, nothing is split
    for (size_t i = 0; i < global_.size(); ++i)
      if (!layout_.dim(static_cast<int64_t>(i)).empty()) d = i;
    int64_t inner = 1, outer = 1;
    for (size_t i = d + 1; i < global_.size(); ++i) inner *= global_[i];
    for (size_t i = 0; i < d; ++i) outer *= global_[i];
    if (outer > 1 && global_[d] * inner % each != 0) return philox_one_by_one(state, bits, each);
    // Runs of the part: [outer dims, elements in a row].
    const int64_t run = local_[d] * inner;
    const bool aligned = run % each == 0 || layout_.dim(static_cast<int64_t>(d)).empty();
    Dims blocks(local_.begin(), local_.begin() + static_cast<int64_t>(d));
    blocks.push_back(ceil_div(run + (aligned ? 0 : each - 1), each));
    Node* begin = multiply_u64(start(d), inner);
    Node* first = hlo::divide(begin, constant_like(begin, uint64_t(each)));
    Node* at = linear(blocks, d + 1, {{d, outer > 1 ? global_[d] * inner / each : 1, first}});
    Node* numbers = interleaved(philox_words(state, at, bits), d);
    numbers = cut(numbers, d, aligned ? nullptr : remainder(begin, each), run);
    return hlo::reshape(numbers, local_);
  }

 private:
  // A dim that counts something else than elements: how many there are in the whole, and the number
  // of the part's first.
  struct Counted {
    size_t dim;
    int64_t size;
    Node* start;
  };

  Node* number(uint64_t value) { return hlo::constant(spmd_.local(), Array::scalar(value)); }
  Node* multiply_u64(Node* x, int64_t by) {
    return by == 1 ? x : multiply(x, constant_like(x, static_cast<uint64_t>(by)));
  }
  static Node* half(Node* x) { return shifted_right(x, 1); }
  static Node* remainder(Node* x, int64_t by) {
    Node* rest = hlo::remainder(x, constant_like(x, static_cast<uint64_t>(by)));
    return hlo::convert(rest, DType::s32);
  }

  // The first position of the part along dim d, u64[].
  Node* start(size_t d) {
    const auto dim = static_cast<int64_t>(d);
    if (layout_.dim(dim).empty()) return number(0);
    Node* tile = hlo::convert(spmd_.tile_index(layout_, dim), DType::u64);
    return multiply_u64(tile, local_[d]);
  }

  // Row-major numbers over the first `rank` dims of `dims`.
  Node* linear(const Dims& dims, size_t rank, const std::vector<Counted>& counted) {
    const Shape shape(DType::u64, dims);
    Node* sum = nullptr;
    Node* offset = nullptr;
    int64_t stride = 1;
    for (size_t d = rank; d-- > 0;) {
      int64_t size = global_[d];
      Node* first = nullptr;
      for (const Counted& c : counted)
        if (c.dim == d) {
          size = c.size;
          first = c.start;
        }
      if (!first) first = start(d);
      Node* term = hlo::iota(spmd_.local(), shape, static_cast<int64_t>(d));
      term = multiply_u64(term, stride);
      sum = sum ? add(sum, term) : term;
      first = multiply_u64(first, stride);
      offset = offset ? add(offset, first) : first;
      stride *= size;
    }
    return add(sum, as_large_as(sum, offset));
  }

  // Element i of each along dim d, one after the other.
  static Node* interleaved(std::vector<Node*> parts, size_t d) {
    Dims dims = parts[0]->dims();
    Dims whole = dims;
    whole[d] *= std::ssize(parts);
    dims.insert(dims.begin() + static_cast<int64_t>(d) + 1, 1);
    for (Node*& part : parts) part = hlo::reshape(part, dims);
    return hlo::reshape(hlo::concatenate(parts, static_cast<int64_t>(d) + 1), whole);
  }

  // `size` elements of dim d from `from` (nullptr: the first) on.
  static Node* cut(Node* x, size_t d, Node* from, int64_t size) {
    const auto dim = static_cast<int64_t>(d);
    if (!from || x->dim(dim) == size) return gspmd::cut(x, dim, 0, size);
    return gspmd::cut(x, dim, IndexNode(from), size);
  }

  // The numbers of blocks `at`.
  std::vector<Node*> philox_words(const std::vector<Node*>& state, Node* at, int bits) {
    Node* low = as_large_as(at, state[1]);
    Node* high = as_large_as(at, state.size() > 2 ? state[2] : state[0]);
    Node* counter = add(at, low);
    Node* carry = hlo::convert(hlo::compare(counter, low, Direction::lt), DType::u64);
    const auto below = halves(counter), above = halves(add(high, carry));
    const auto x = emit_philox(halves(state[0]), {below[0], below[1], above[0], above[1]});
    if (bits > 32) return {joined(x[0], x[1]), joined(x[2], x[3])};
    return {x[0], x[1], x[2], x[3]};
  }

  // Where rows begin inside of blocks: every element takes its number of its block.
  Node* philox_one_by_one(const std::vector<Node*>& state, int bits, int64_t each) {
    Node* at = positions();
    Node* size = constant_like(at, static_cast<uint64_t>(each));
    Node* which = hlo::remainder(at, size);
    const auto words = philox_words(state, hlo::divide(at, size), bits);
    Node* result = words[0];
    for (size_t w = 1; w < words.size(); ++w)
      result = hlo::select(hlo::compare(which, constant_like(which, w), Direction::eq), words[w],
                           result);
    return result;
  }

  PartitionContext& spmd_;
  const Dims& global_;
  const Sharding& layout_;
  Dims local_;
};

bool is_split(const Sharding& s) { return s.is_tiled() && s.order() && s.num_tiles() > 1; }

// The state after `counters` have been taken.
Node* next_state(const std::vector<Node*>& words, int64_t counters) {
  Node* next = add(words[1], constant_like(words[1], static_cast<uint64_t>(counters)));
  std::vector<Node*> parts{words[0], next};
  if (words.size() > 2) {
    Node* carry = hlo::convert(hlo::compare(next, words[1], Direction::lt), DType::u64);
    parts.push_back(add(words[2], carry));
  }
  for (Node*& part : parts) part = hlo::reshape(part, {1});
  return hlo::concatenate(parts, 0);
}

// Numbers from 0 on, below 1, of 53 bits: counters under a fixed key (ops/random.cpp).
Node* unit(Node* counter) {
  Computation& c = counter->parent();
  const std::array<Node*, 2> key{hlo::constant(c, Array::scalar(uint32_t{0x243F6A88u})),
                                 hlo::constant(c, Array::scalar(uint32_t{0x85A308D3u}))};
  const auto x = emit_threefry(key, halves(counter));
  Node* bits = hlo::convert(shifted_right(joined(x[0], x[1]), 11), DType::f64);
  return multiply(bits, hlo::splat(c, bits->shape, 0x1p-53));
}

Node* normal(Node* counter) {
  Computation& c = counter->parent();
  Node* even = multiply(counter, constant_like(counter, 2));
  Node* u1 = unit(even);
  Node* u2 = unit(add(even, constant_like(even, 1)));
  Node* log = hlo::unary(Opcode::log_plus_one, hlo::unary(Opcode::negate, u1));
  Node* radius = hlo::unary(Opcode::sqrt, multiply(log, hlo::splat(c, log->shape, -2)));
  Node* angle = multiply(u2, hlo::splat(c, u2->shape, 2 * std::numbers::pi));
  return multiply(radius, hlo::unary(Opcode::cosine, angle));
}

}  // namespace

std::optional<Partitioned> partition_rng_bit_generator(PartitionContext& spmd, Node& node) {
  const Sharding& wanted = spmd.sharding(node);
  const bool with_state = node.shape.is_tuple;
  const Sharding layout = wanted.is_tuple() ? wanted.elements().at(1) : wanted;
  const Shape& shape = with_state ? node.shape.elements[1] : node.shape;
  if (!is_split(layout) || has_manual_digits(layout) || shape.elements_count() == 0 ||
      !is_random_state(node.operand(0)->shape, node.attrs.scalar->algorithm))
    return std::nullopt;
  const bool threefry = node.attrs.scalar->algorithm == "rng_three_fry";
  const auto bits = static_cast<int>(8 * dtype_size(shape.dtype));
  Node* state = spmd.reshard(node.operand(0), Sharding::replicated());
  std::vector<Node*> words;
  for (int64_t i = 0; i < state->dim(0); ++i)
    words.push_back(hlo::reshape(hlo::slice(state, {i}, {i + 1}, {1}), {}));
  RandomPart part(spmd, shape.dims, layout);
  Node* values = threefry ? part.threefry(words, bits) : part.philox(words, bits);
  values = hlo::convert(values, shape.dtype);
  if (!with_state) return Partitioned{values, layout};
  Node* next = next_state(
      words, threefry ? threefry_counters(shape.dims, bits) : philox_counters(shape.dims, bits));
  return Partitioned{hlo::tuple(spmd.local(), {next, values}),
                     Sharding::tuple({Sharding::replicated(), layout})};
}

std::optional<Partitioned> partition_rng(PartitionContext& spmd, Node& node) {
  const Sharding layout = spmd.sharding(node);
  const bool uniform = node.attrs.scalar->distribution == "rng_uniform";
  if (!is_split(layout) || has_manual_digits(layout) || node.shape.elements_count() == 0)
    return std::nullopt;
  const DType type = node.shape.dtype;
  Node* counter = RandomPart(spmd, node.shape.dims, layout).positions();
  const auto wide = [&](int64_t i) {
    Node* scalar = hlo::convert(spmd.reshard(node.operand(i), Sharding::replicated()), DType::f64);
    return hlo::broadcast(scalar, counter->dims(), {});
  };
  Node *a = wide(0), *b = wide(1);
  Node* value =
      uniform ? multiply(hlo::subtract(b, a), unit(counter)) : multiply(b, normal(counter));
  value = add(a, value);
  if (!is_floating(type)) value = hlo::unary(Opcode::floor, value);
  value = hlo::convert(value, type);
  if (is_floating(type) && uniform) {  // rounding may reach the upper bound, which is not included
    Node* reached = hlo::binary(Opcode::and_, hlo::compare(a, b, Direction::lt),
                                hlo::compare(hlo::convert(value, DType::f64), b, Direction::ge));
    value = hlo::select(reached, hlo::convert(a, type), value);
  }
  return Partitioned{value, layout};
}

}  // namespace gspmd
