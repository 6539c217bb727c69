#pragma once

// What bounds an op, measured beside it on as many threads: copies and reads of the bytes that it
// must move, plain loops, the standard library's sorts.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "gspmd/kernels/worker_pool.h"

namespace gspmd::bench {

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline std::vector<float> random_floats(int64_t n) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = uniform(random);
  return out;
}

// Work to time again and again; its arrays are made once.
using Limit = std::function<void()>;

// f(first, last) over [0, n) cut among the workers.
inline void in_pieces(WorkerPool& pool, int64_t n, const std::function<void(int64_t, int64_t)>& f) {
  pool.run([&](int worker) { f(worker * n / pool.size(), (worker + 1) * n / pool.size()); });
}

// A copy that reads and writes `bytes` together.
inline Limit copy_limit(const std::shared_ptr<WorkerPool>& pool, double bytes) {
  const auto n = std::max<int64_t>(static_cast<int64_t>(bytes / 2), 1);
  auto from = std::make_shared<std::vector<char>>(static_cast<size_t>(n), 1);
  auto to = std::make_shared<std::vector<char>>(static_cast<size_t>(n));
  return [=] {
    in_pieces(*pool, n, [&](int64_t first, int64_t last) {
      std::memcpy(to->data() + first, from->data() + first, static_cast<size_t>(last - first));
    });
  };
}

// A sum of `bytes` of numbers.
inline Limit read_limit(const std::shared_ptr<WorkerPool>& pool, double bytes) {
  const auto n = static_cast<int64_t>(bytes / 4);
  auto from = std::make_shared<std::vector<uint32_t>>(static_cast<size_t>(n), 1);
  auto sums = std::make_shared<std::vector<uint32_t>>(1024);
  return [=] {
    pool->run([&](int worker) {
      const int64_t first = worker * n / pool->size(), last = (worker + 1) * n / pool->size();
      std::array<uint32_t, 64> sum{};
      int64_t i = first;
      for (; i + 64 <= last; i += 64)
        for (size_t lane = 0; lane < 64; ++lane)
          sum[lane] += (*from)[static_cast<size_t>(i) + lane];
      (*sums)[static_cast<size_t>(worker) * 16 % 1024] =
          std::accumulate(sum.begin(), sum.end(), uint32_t{0});
    });
  };
}

// The gradient of a 3x3 maximum by steps of 2 over [8,112,112,64] as a plain loop.
inline Limit pool_gradient_limit(const std::shared_ptr<WorkerPool>& pool) {
  constexpr int64_t kIn = 112, kOut = 56, kC = 64;
  auto x = std::make_shared<std::vector<float>>(random_floats(8 * kIn * kIn * kC));
  auto dy = std::make_shared<std::vector<float>>(random_floats(8 * kOut * kOut * kC));
  auto dx = std::make_shared<std::vector<float>>(x->size());
  return [=] {
    in_pieces(*pool, 8, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n) {
        const float* const in = x->data() + n * kIn * kIn * kC;
        float* const out = dx->data() + n * kIn * kIn * kC;
        std::fill_n(out, kIn * kIn * kC, 0.0f);
        for (int64_t h = 0; h < kOut; ++h)
          for (int64_t w = 0; w < kOut; ++w) {
            float best[kC];
            int32_t at[kC];
            bool any = false;
            for (int64_t i = std::max<int64_t>(2 * h - 1, 0); i < std::min(2 * h + 2, kIn); ++i)
              for (int64_t j = std::max<int64_t>(2 * w - 1, 0); j < std::min(2 * w + 2, kIn); ++j) {
                const float* const row = in + (i * kIn + j) * kC;
                const auto place = static_cast<int32_t>((i * kIn + j) * kC);
                for (int64_t c = 0; c < kC; ++c) {
                  const bool keeps = any && best[c] >= row[c];
                  best[c] = keeps ? best[c] : row[c];
                  at[c] = keeps ? at[c] : place;
                }
                any = true;
              }
            const float* const add = dy->data() + ((n * kOut + h) * kOut + w) * kC;
            for (int64_t c = 0; c < kC; ++c) out[at[c] + c] += add[c];
          }
      }
    });
  };
}

// A radix sort of float keys in three passes of 11 bits, on one thread; `payload`: with the index
// of each key, and the gather of a second array.
template <bool kPayload>
void radix_sort_floats(const std::vector<float>& in, std::vector<float>& out,
                       std::vector<float>& second) {
  using Item = std::conditional_t<kPayload, uint64_t, uint32_t>;
  constexpr int kShift = kPayload ? 32 : 0;
  const size_t n = in.size();
  static thread_local std::vector<Item> a, b;
  a.resize(n);
  b.resize(n);
  std::array<std::array<uint32_t, 2048>, 3> counts{};
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &in[i], 4);
    bits ^= (bits >> 31) != 0 ? 0xffffffffu : 0x80000000u;
    a[i] = static_cast<Item>(bits) << kShift;
    if constexpr (kPayload) a[i] |= i;
    ++counts[0][bits & 2047], ++counts[1][bits >> 11 & 2047], ++counts[2][bits >> 22];
  }
  for (int pass = 0; pass < 3; ++pass) {
    uint32_t next = 0;
    auto& starts = counts[static_cast<size_t>(pass)];
    for (uint32_t& start : starts) next += std::exchange(start, next);
    for (size_t i = 0; i < n; ++i) b[starts[a[i] >> (kShift + 11 * pass) & 2047]++] = a[i];
    std::swap(a, b);
  }
  for (size_t i = 0; i < n; ++i) {
    auto bits = static_cast<uint32_t>(a[i] >> kShift);
    bits ^= (bits >> 31) != 0 ? 0x80000000u : 0xffffffffu;
    std::memcpy(&out[i], &bits, 4);
    if constexpr (kPayload) second[i] = in[a[i] & 0xffffffffu];
  }
}

inline Limit radix_limit(int64_t n, bool payload) {
  auto in = std::make_shared<std::vector<float>>(random_floats(n));
  auto out = std::make_shared<std::vector<float>>(in->size());
  auto second = std::make_shared<std::vector<float>>(in->size());
  return [=] {
    if (payload)
      radix_sort_floats<true>(*in, *out, *second);
    else
      radix_sort_floats<false>(*in, *out, *second);
  };
}

// std::stable_sort of indices by the sum of two arrays, and the gather of both; one thread.
inline Limit stable_sort_limit(int64_t n) {
  auto a = std::make_shared<std::vector<float>>(random_floats(n));
  auto b = std::make_shared<std::vector<float>>(*a);
  std::reverse(b->begin(), b->end());
  auto out = std::make_shared<std::array<std::vector<float>, 2>>();
  return [=] {
    std::vector<int32_t> order(a->size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t x, int32_t y) {
      const auto i = static_cast<size_t>(x), j = static_cast<size_t>(y);
      return (*a)[i] + (*b)[i] < (*a)[j] + (*b)[j];
    });
    for (auto& column : *out) column.resize(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      (*out)[0][i] = (*a)[static_cast<size_t>(order[i])];
      (*out)[1][i] = (*b)[static_cast<size_t>(order[i])];
    }
  };
}

// A copy of lines, each put in order by std::sort.
inline Limit line_sort_limit(const std::shared_ptr<WorkerPool>& pool, int64_t lines, int64_t size) {
  auto in = std::make_shared<std::vector<float>>(random_floats(lines * size));
  auto out = std::make_shared<std::vector<float>>(in->size());
  return [=] {
    in_pieces(*pool, lines, [&](int64_t first, int64_t last) {
      std::copy(in->begin() + first * size, in->begin() + last * size, out->begin() + first * size);
      for (int64_t line = first; line < last; ++line)
        std::sort(out->begin() + line * size, out->begin() + (line + 1) * size);
    });
  };
}

// Additions of rows at random places of a table, in order, on one thread, after a copy of it.
inline Limit scatter_limit(int64_t table, int64_t rows, int64_t width) {
  auto from = std::make_shared<std::vector<float>>(random_floats(table * width));
  auto to = std::make_shared<std::vector<float>>(from->size());
  auto updates = std::make_shared<std::vector<float>>(random_floats(rows * width));
  auto places = std::make_shared<std::vector<int64_t>>();
  std::mt19937 random(3);
  for (int64_t i = 0; i < rows; ++i) places->push_back(static_cast<int64_t>(random()) % table);
  return [=] {
    *to = *from;
    for (int64_t i = 0; i < rows; ++i) {
      float* __restrict const row = to->data() + (*places)[static_cast<size_t>(i)] * width;
      const float* __restrict const add = updates->data() + i * width;
      for (int64_t j = 0; j < width; ++j) row[j] += add[j];
    }
  };
}

// Reads of rows at random places of a table.
inline Limit gather_limit(const std::shared_ptr<WorkerPool>& pool, int64_t table, int64_t rows,
                          int64_t width) {
  auto from = std::make_shared<std::vector<float>>(random_floats(table * width));
  auto to = std::make_shared<std::vector<float>>(static_cast<size_t>(rows * width));
  auto places = std::make_shared<std::vector<int64_t>>();
  std::mt19937 random(3);
  for (int64_t i = 0; i < rows; ++i) places->push_back(static_cast<int64_t>(random()) % table);
  return [=] {
    in_pieces(*pool, rows, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        std::memcpy(to->data() + i * width,
                    from->data() + (*places)[static_cast<size_t>(i)] * width,
                    static_cast<size_t>(width) * sizeof(float));
    });
  };
}

}  // namespace gspmd::bench
