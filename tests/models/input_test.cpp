// What hosts read: disjoint parts whose union is the epoch, the same for one seed.
#include "models/input.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "gspmd/gspmd.h"

namespace gspmd::models {
namespace {

using Catch::Matchers::Contains;

// Lengths as of sentences: many short, some long.
std::vector<int64_t> sentence_lengths(int64_t n) {
  const Array uniform = random_uniform_array(Shape(DType::f64, {n}), 5);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < n; ++i)
    lengths.push_back(1 + static_cast<int64_t>(std::pow(uniform.at(i), 3) * 127));
  return lengths;
}

// Elements of padding over those of examples.
double waste(const std::vector<int64_t>& lengths, const std::vector<int64_t>& bounds) {
  int64_t padded = 0, read = 0;
  for (const auto& batch : LengthBuckets(lengths, bounds, 16, 3).epoch(0))
    for (const int64_t row : batch.rows) {
      padded += batch.length;
      if (row >= 0) read += lengths[size_t(row)];
    }
  return double(padded) / double(read) - 1;
}

}  // namespace

TEST_CASE("input: hosts read disjoint parts, every epoch has every example once", "[models]") {
  constexpr int64_t kExamples = 45, kBatch = 12;  // 15 batches are 4 epochs
  for (const int64_t hosts : {1, 2, 3, 4}) {
    std::vector<int64_t> all;
    for (int64_t step = 0; step < 15; ++step)
      for (int64_t host = 0; host < hosts; ++host) {
        const auto rows = EpochOrder(kExamples, kBatch, 7, {hosts, host}).rows(step);
        CHECK(int64_t(rows.size()) == kBatch / hosts);
        all.insert(all.end(), rows.begin(), rows.end());
      }
    std::vector<std::vector<int64_t>> epochs;
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      epochs.emplace_back(all.begin() + epoch * kExamples, all.begin() + (epoch + 1) * kExamples);
      std::vector<int64_t> sorted = epochs.back(), every(kExamples);
      std::sort(sorted.begin(), sorted.end());
      std::iota(every.begin(), every.end(), 0);
      CHECK(sorted == every);
      CHECK(epochs.back() != every);
    }
    CHECK(epochs[0] != epochs[1]);
    // The rows of all hosts together do not depend on how many they are.
    static const std::vector<int64_t> expected = all;
    CHECK(all == expected);
  }
  CHECK(EpochOrder(45, 12, 7).rows(3) != EpochOrder(45, 12, 8).rows(3));
  const EpochOrder order(45, 12, 7);
  const auto later = order.rows(9);
  order.rows(2);
  CHECK(order.rows(9) == later);
}

TEST_CASE("input: an order is equally likely to begin with any example", "[models]") {
  std::map<int64_t, int64_t> firsts;
  for (uint32_t seed = 0; seed < 4000; ++seed) ++firsts[random_order(4, seed, 2)[0]];
  for (int64_t i = 0; i < 4; ++i) CHECK(std::abs(double(firsts[i]) - 1000) < 5 * std::sqrt(750));
}

TEST_CASE("input: buckets pad little, and all hosts have the same batches", "[models]") {
  const std::vector<int64_t> lengths = sentence_lengths(1000), bounds = {8, 16, 32, 64, 128};
  CHECK(waste(lengths, bounds) < 0.6);
  CHECK(waste(lengths, {128}) > 2);
  for (const int64_t epoch : {0, 1}) {
    std::vector<int64_t> seen;
    std::vector<std::vector<LengthBuckets::Batch>> hosts;
    for (int64_t host = 0; host < 4; ++host)
      hosts.push_back(LengthBuckets(lengths, bounds, 16, 3, {4, host}).epoch(epoch));
    for (const auto& host : hosts) {
      REQUIRE(host.size() == hosts[0].size());
      for (size_t i = 0; i < host.size(); ++i) {
        CHECK(host[i].length == hosts[0][i].length);
        CHECK(host[i].rows.size() == 4);
        for (const int64_t row : host[i].rows) {
          if (row < 0) continue;
          seen.push_back(row);
          CHECK(lengths[size_t(row)] <= host[i].length);
        }
      }
    }
    std::sort(seen.begin(), seen.end());
    REQUIRE(seen.size() == 1000);
    CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
  }
  const LengthBuckets buckets(lengths, bounds, 16, 3);
  CHECK(buckets.epoch(0)[0].rows == buckets.epoch(0)[0].rows);
  CHECK(buckets.epoch(0)[0].rows != buckets.epoch(1)[0].rows);
}

TEST_CASE("input: what cannot be read is an error with the way out", "[models]") {
  CHECK_THROWS_WITH(EpochOrder(0, 4, 1), Contains("0 examples"));
  CHECK_THROWS_WITH(EpochOrder(4, 0, 1), Contains("batch is 0"));
  CHECK_THROWS_WITH(EpochOrder(4, 4, 1, {2, 2}), Contains("host 2 of 2"));
  CHECK_THROWS_WITH(EpochOrder(4, 4, 1, {3, 0}), Contains("3 hosts do not divide the batch of 4"));
  CHECK_THROWS_WITH(LengthBuckets({3, 9}, {8}, 1, 1), Contains("example 1 has length 9"));
  CHECK_THROWS_WITH(LengthBuckets({3}, {8, 8}, 1, 1), Contains("must rise"));
  CHECK_THROWS_WITH(LengthBuckets({3}, {}, 1, 1), Contains("no buckets"));
}

}  // namespace gspmd::models
