#include "ops/random/bits.h"

#include <bit>

namespace gspmd {
namespace {

std::array<uint32_t, 2> halves(uint64_t value) {
  return {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
}

uint64_t joined(uint32_t low, uint32_t high) { return uint64_t(high) << 32 | low; }

int64_t product(const Dims& dims, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t d = begin; d < end; ++d) count *= dims[d];
  return count;
}

}  // namespace

std::array<uint32_t, 2> threefry_2x32(std::array<uint32_t, 2> key, std::array<uint32_t, 2> x) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {key[0], key[1], 0x1BD11BDAu ^ key[0] ^ key[1]};
  x[0] += keys[0];
  x[1] += keys[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      x[0] += x[1];
      x[1] = std::rotl(x[1], rotation) ^ x[0];
    }
    x[0] += keys[(group + 1) % 3];
    x[1] += keys[(group + 2) % 3] + group + 1;
  }
  return x;
}

std::array<uint32_t, 4> philox_4x32(std::array<uint32_t, 2> key, std::array<uint32_t, 4> x) {
  for (int round = 0; round < 10; ++round) {
    const std::array<uint32_t, 2> first = halves(uint64_t(x[0]) * 0xD2511F53u);
    const std::array<uint32_t, 2> second = halves(uint64_t(x[2]) * 0xCD9E8D57u);
    x = {second[1] ^ x[1] ^ key[0], second[0], first[1] ^ x[3] ^ key[1], first[0]};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return x;
}

bool is_random_state(const Shape& state, std::string_view algorithm) {
  if (state.is_tuple || state.dtype != DType::u64 || state.rank() != 1) return false;
  return state.dims[0] == 2 || (state.dims[0] == 3 && algorithm != "rng_three_fry");
}

size_t halved_dim(const Dims& dims) {
  size_t longest = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] % 2 == 0) return d;
    if (dims[d] > dims[longest]) longest = d;
  }
  return longest;
}

int64_t threefry_counters(const Dims& dims, int bits) {
  const int64_t count = product(dims, 0, dims.size());
  if (bits > 32 || dims.empty()) return count;
  const int64_t size = dims[halved_dim(dims)];
  return size == 0 ? 0 : count / size * ceil_div(size, 2);
}

int64_t philox_counters(const Dims& dims, int bits) {
  return ceil_div(product(dims, 0, dims.size()), bits > 32 ? 2 : 4);
}

RandomBits threefry_bits(const std::vector<uint64_t>& state, const Dims& dims, int bits) {
  const std::array<uint32_t, 2> key = halves(state[0]);
  const int64_t count = product(dims, 0, dims.size());
  RandomBits result;
  result.values.resize(static_cast<size_t>(count));
  if (bits > 32) {
    for (int64_t i = 0; i < count; ++i) {
      const auto x = threefry_2x32(key, halves(state[1] + static_cast<uint64_t>(i)));
      result.values[static_cast<size_t>(i)] = joined(x[0], x[1]);
    }
    result.state = {state[0], state[1] + static_cast<uint64_t>(threefry_counters(dims, bits))};
    return result;
  }
  const uint64_t mask = (uint64_t(1) << bits) - 1;
  const size_t dim = halved_dim(dims);
  const int64_t size = dims.empty() ? 1 : dims[dim];
  const int64_t half = (size + 1) / 2;
  const int64_t inner = dims.empty() ? 1 : product(dims, dim + 1, dims.size());
  const int64_t counters = threefry_counters(dims, bits);
  for (int64_t i = 0; i < counters; ++i) {
    const auto x = threefry_2x32(key, halves(state[1] + static_cast<uint64_t>(i)));
    const int64_t row = i / inner % half;
    for (int64_t part = 0; part < 2 && 2 * row + part < size; ++part)
      result.values[static_cast<size_t>((i / inner / half * size + 2 * row + part) * inner +
                                        i % inner)] = x[static_cast<size_t>(part)] & mask;
  }
  result.state = {state[0], state[1] + static_cast<uint64_t>(counters)};
  return result;
}

RandomBits philox_bits(const std::vector<uint64_t>& state, const Dims& dims, int bits) {
  const std::array<uint32_t, 2> key = halves(state[0]);
  const uint64_t low = state[1];
  const uint64_t high = state.size() > 2 ? state[2] : state[0];
  const int64_t count = product(dims, 0, dims.size());
  const int64_t blocks = philox_counters(dims, bits);
  const uint64_t mask = bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  RandomBits result;
  for (int64_t i = 0; i < blocks; ++i) {
    const uint64_t at = low + static_cast<uint64_t>(i);
    const std::array<uint32_t, 2> below = halves(at);
    const std::array<uint32_t, 2> above = halves(high + (at < low ? 1 : 0));
    const auto x = philox_4x32(key, {below[0], below[1], above[0], above[1]});
    if (bits > 32) {
      result.values.push_back(joined(x[0], x[1]));
      result.values.push_back(joined(x[2], x[3]));
    } else {
      for (const uint32_t number : x) result.values.push_back(number & mask);
    }
  }
  result.values.resize(static_cast<size_t>(count));
  const uint64_t next = low + static_cast<uint64_t>(blocks);
  result.state = {state[0], next};
  if (state.size() > 2) result.state.push_back(high + (next < low ? 1 : 0));
  return result;
}

}  // namespace gspmd
