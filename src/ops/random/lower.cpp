// Random numbers on all workers: parts count on from where their elements begin.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "kernels/random_numbers.h"
#include "ops/common/numeric.h"
#include "ops/random/bits.h"

namespace gspmd {
namespace {

constexpr int64_t kRandomBlock = 512;              // counters whose words are made at once
constexpr int64_t kRandomPart = int64_t{1} << 14;  // counters of a part, about
constexpr int64_t kMostRandomParts = 16;

int64_t random_parts(int64_t counters) {
  return std::clamp<int64_t>(counters / kRandomPart, 1, kMostRandomParts);
}

int64_t product_of(const Dims& dims, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t d = begin; d < end; ++d) count *= dims[d];
  return count;
}

// Words of `n` counters from `first` on under a key, in room for n rounded up to a multiple of 64.
void words_from(uint64_t key, uint64_t first, int64_t n, uint32_t* words0, uint32_t* words1) {
  const auto low = static_cast<uint32_t>(first);
  ThreefryCounters counters{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32), low,
                            static_cast<uint32_t>(first >> 32)};
  threefry_words(counters, n, words0, words1);
  const int64_t before = (int64_t{1} << 32) - low;  // counters until the upper half counts on
  if (before >= n) return;
  uint32_t other0[kRandomBlock + 64], other1[kRandomBlock + 64];
  counters.low = 0;
  ++counters.high;
  threefry_words(counters, n - before, other0, other1);
  const auto bytes = static_cast<size_t>(n - before) * sizeof(uint32_t);
  std::memcpy(words0 + before, other0, bytes);
  std::memcpy(words1 + before, other1, bytes);
}

// Arrays of threefry's bits (threefry_bits).
struct ThreefryArray {
  int64_t counters = 0;
  int64_t size = 1, half = 1, inner = 1;  // of the halved dim, of its pairs, of what is behind it

  ThreefryArray(const Dims& dims, int bits) : counters(threefry_counters(dims, bits)) {
    if (dims.empty() || bits > 32) return;
    const size_t dim = halved_dim(dims);
    size = dims[dim];
    half = ceil_div(size, 2);
    inner = product_of(dims, dim + 1, dims.size());
  }

  // Numbers of up to 32 bits: two rows of the result for each row of words.
  template <class T>
  void put(const uint32_t* words0, const uint32_t* words1, int64_t first, int64_t n, T* out) const {
    for (int64_t i = 0; i < n;) {
      const int64_t at = first + i, row = at / inner % half, in = at % inner;
      T* const to = out + (at / inner / half * size + 2 * row) * inner + in;
      if (inner == 1) {  // as many pairs as follow each other; the last may be half of one
        const int64_t run = std::min(half - row, n - i);
        const int64_t pairs = std::min(run, (size - 2 * row) / 2);
        for (int64_t k = 0; k < pairs; ++k) {
          to[2 * k] = static_cast<T>(words0[i + k]);
          to[2 * k + 1] = static_cast<T>(words1[i + k]);
        }
        if (pairs < run) to[2 * pairs] = static_cast<T>(words0[i + pairs]);
        i += run;
        continue;
      }
      const int64_t run = std::min(inner - in, n - i);
      for (int64_t k = 0; k < run; ++k) to[k] = static_cast<T>(words0[i + k]);
      if (2 * row + 1 < size)
        for (int64_t k = 0; k < run; ++k) to[inner + k] = static_cast<T>(words1[i + k]);
      i += run;
    }
  }

  template <class T>
  void run(const uint64_t* state, int64_t first, int64_t last, T* out) const {
    uint32_t words0[kRandomBlock + 64], words1[kRandomBlock + 64];
    for (int64_t at = first; at < last; at += kRandomBlock) {
      const int64_t n = std::min(kRandomBlock, last - at);
      words_from(state[0], state[1] + static_cast<uint64_t>(at), n, words0, words1);
      if constexpr (sizeof(T) == 8)
        for (int64_t i = 0; i < n; ++i)
          out[at + i] = static_cast<T>(uint64_t(words1[i]) << 32 | words0[i]);
      else
        put(words0, words1, at, n, out);
    }
  }
};

// Words of `n` of philox's counters, of 128 bits, from the `first` behind the state's on.
void philox_from(const uint64_t* state, bool is_wide, int64_t first, int64_t n, uint32_t* words) {
  PhiloxCounters counters{state[0], state[1] + static_cast<uint64_t>(first),
                          is_wide ? state[2] : state[0]};
  if (counters.low < state[1]) ++counters.high;
  const uint64_t before = ~counters.low;  // and one: counters until the upper half counts on
  if (before >= static_cast<uint64_t>(n)) return philox_words(counters, n, words);
  const auto whole = static_cast<int64_t>(before) + 1;
  philox_words(counters, whole, words);
  philox_words({counters.key, 0, counters.high + 1}, n - whole, words + 4 * whole);
}

// Arrays of philox's bits (philox_bits).
struct PhiloxArray {
  int64_t counters = 0, count = 0;  // blocks, and elements
  bool wide_state = false;

  // Numbers of 32 and 64 bits are the words as they lie; of fewer bits each is the lower ones of a
  // word.
  template <class T>
  void run(const uint64_t* state, int64_t first, int64_t last, T* out) const {
    constexpr int64_t kEach = sizeof(T) == 8 ? 2 : 4;  // numbers of a block
    const int64_t whole = std::min(last, count / kEach);
    if constexpr (sizeof(T) >= 4) {
      if (first < whole)
        philox_from(state, wide_state, first, whole - first,
                    reinterpret_cast<uint32_t*>(out + first * kEach));
      first = std::max(first, whole);
    }
    uint32_t words[4 * kRandomBlock];
    for (; first < last; first += kRandomBlock) {
      const int64_t n = std::min(kRandomBlock, last - first);
      philox_from(state, wide_state, first, n, words);
      const int64_t wanted = std::min(n * kEach, count - first * kEach);
      T* const to = out + first * kEach;
      for (int64_t i = 0; i < wanted; ++i) to[i] = number<T>(words, i);
    }
  }

  template <class T>
  static T number(const uint32_t* words, int64_t i) {
    if constexpr (sizeof(T) < 8) return static_cast<T>(words[i]);
    return static_cast<T>(uint64_t(words[2 * i + 1]) << 32 | words[2 * i]);
  }
};

// The state when `counters` have been taken.
void write_next_state(const uint64_t* state, int64_t counters, bool is_wide, uint64_t* next) {
  next[0] = state[0];
  next[1] = state[1] + static_cast<uint64_t>(counters);
  if (is_wide) next[2] = state[2] + (next[1] < state[1] ? 1 : 0);
}

// Of arrays of either generator. The state's buffer is not the result's: only elementwise ops and
// those that write first lie in their operands.
template <class Generator>
PreparedKernel bits_kernel(const Node& node, const Generator& generator, bool is_wide) {
  const bool with_state = node.shape.is_tuple;
  const int64_t size = dtype_size((with_state ? node.shape.elements[1] : node.shape).dtype);
  PreparedKernel kernel;
  kernel.parts = random_parts(generator.counters);
  kernel.cost = 100 + static_cast<double>(generator.counters);
  kernel.run = [generator, is_wide, with_state, size,
                parts = kernel.parts](const KernelArgs& args) {
    const auto* const state = reinterpret_cast<const uint64_t*>(args.operands[0]);
    if (with_state && args.part == 0)
      write_next_state(state, generator.counters, is_wide,
                       reinterpret_cast<uint64_t*>(args.results[0]));
    const int64_t first = args.part * generator.counters / parts;
    const int64_t last = (args.part + 1) * generator.counters / parts;
    std::byte* const out = args.results[with_state ? 1 : 0];
    if (size == 1) generator.run(state, first, last, reinterpret_cast<uint8_t*>(out));
    if (size == 2) generator.run(state, first, last, reinterpret_cast<uint16_t*>(out));
    if (size == 4) generator.run(state, first, last, reinterpret_cast<uint32_t*>(out));
    if (size == 8) generator.run(state, first, last, reinterpret_cast<uint64_t*>(out));
  };
  return kernel;
}

// rng's numbers of the counters from 0 on, below 1 (ops/random/random.cpp: unit, normal).
class DrawnWords {
 public:
  // Words of counters [first, first + n).
  void make(int64_t first, int64_t n) {
    words_from(uint64_t{0x85A308D3U} << 32 | 0x243F6A88U, static_cast<uint64_t>(first), n, words0_,
               words1_);
  }
  double unit(int64_t i) const {
    return static_cast<double>((uint64_t(words1_[i]) << 32 | words0_[i]) >> 11) * 0x1p-53;
  }
  double normal(int64_t i) const {
    const double radius = std::sqrt(-2 * std::log1p(-unit(2 * i)));
    return radius * std::cos(2 * std::numbers::pi * unit(2 * i + 1));
  }
  void normals(int64_t n, double* numbers) const { normal_doubles(words0_, words1_, n, numbers); }

 private:
  uint32_t words0_[kRandomBlock + 64], words1_[kRandomBlock + 64];
};

template <class T>
void draw_uniform(double a, double b, int64_t first, int64_t last, T* out) {
  DrawnWords words;
  for (int64_t at = first; at < last; at += kRandomBlock) {
    const int64_t n = std::min(kRandomBlock, last - at);
    words.make(at, n);
    for (int64_t i = 0; i < n; ++i) {
      double value = a + (b - a) * words.unit(i);
      if constexpr (std::is_integral_v<T>) value = std::floor(value);
      out[at + i] = convert_element<T>(value);
      if constexpr (is_float_v<T>)
        if (a < b && static_cast<double>(out[at + i]) >= b) out[at + i] = convert_element<T>(a);
    }
  }
}

// In vectors, whose logarithms and cosines may differ from the library's in the last bits: where a
// number may be rounded either way it is computed as the evaluator does, and so all are its.
template <class T>
void draw_normal(double a, double b, int64_t first, int64_t last, T* out) {
  constexpr int64_t kNormals = kRandomBlock / 2;
  constexpr double kDifference = 0x1p-44;  // is far more: radii are below 9, errors some 2^-51
  const double difference = (std::fabs(a) + std::fabs(b)) * kDifference;
  DrawnWords words;
  double normals[kNormals + 64];
  for (int64_t at = first; at < last; at += kNormals) {
    const int64_t n = std::min(kNormals, last - at);
    words.make(2 * at, 2 * n);
    words.normals(n, normals);
    for (int64_t i = 0; i < n; ++i) {
      const double value = a + b * normals[i];
      const T least = convert_element<T>(value - difference);
      const T most = convert_element<T>(value + difference);
      out[at + i] = std::memcmp(&least, &most, sizeof(T)) == 0
                        ? least
                        : convert_element<T>(a + b * words.normal(i));
    }
  }
}

}  // namespace

PreparedKernel lower_rng_bit_generator(const Node& node) {
  const std::string& algorithm = node.attrs.scalar->algorithm;
  const Shape& state = node.operand(0)->shape;
  if (!is_random_state(state, algorithm)) return {};
  const Shape& shape = node.shape.is_tuple ? node.shape.elements[1] : node.shape;
  const auto bits = static_cast<int>(8 * dtype_size(shape.dtype));
  const bool is_wide = state.dims[0] == 3;
  if (algorithm == "rng_three_fry")
    return bits_kernel(node, ThreefryArray(shape.dims, bits), is_wide);
  return bits_kernel(
      node, PhiloxArray{philox_counters(shape.dims, bits), shape.elements_count(), is_wide},
      is_wide);
}

PreparedKernel lower_rng(const Node& node) {
  const int64_t count = node.shape.elements_count();
  const bool uniform = node.attrs.scalar->distribution == "rng_uniform";
  return visit_dtype(node.shape.dtype, [&](auto tag) -> PreparedKernel {
    using T = typename decltype(tag)::type;
    PreparedKernel kernel;
    kernel.parts = random_parts(count);
    kernel.cost = 100 + 4.0 * static_cast<double>(count);
    kernel.run = [count, uniform, parts = kernel.parts](const KernelArgs& args) {
      const auto bound = [&](size_t i) {
        T value;
        std::memcpy(&value, args.operands[i], sizeof(T));
        return convert_element<double>(value);
      };
      const double a = bound(0), b = bound(1);
      const int64_t first = args.part * count / parts, last = (args.part + 1) * count / parts;
      T* const out = reinterpret_cast<T*>(args.results[0]);
      if (uniform) return draw_uniform(a, b, first, last, out);
      if constexpr (is_float_v<T>) draw_normal(a, b, first, last, out);
    };
    return kernel;
  });
}

}  // namespace gspmd
