// Rows that are joined and added up, against plain loops, byte by byte and with a margin around.
#include "kernels/rows.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/stream.h"

namespace gspmd {
namespace {

constexpr int64_t kMargin = 192;

// Bytes that begin so many behind a line's beginning, with a margin on both sides.
class Room {
 public:
  Room(int64_t bytes, int64_t past, uint8_t fill)
      : bytes_(size_t(bytes + 2 * kMargin + 128), std::byte{fill}), size_(bytes) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data()) + kMargin;
    first_ = size_t(kMargin) + (64 - address % 64) % 64 + size_t(past);
  }
  std::byte* data() { return bytes_.data() + first_; }
  const std::byte* data() const { return bytes_.data() + first_; }
  int64_t size() const { return size_; }
  // Everything, the margins too.
  bool operator==(const Room& other) const {
    return std::equal(data() - kMargin, data() + size_ + kMargin, other.data() - kMargin);
  }

 private:
  std::vector<std::byte> bytes_;
  int64_t size_;
  size_t first_;
};

struct JoinCase {
  int64_t members, targets, rows, bytes;
  int64_t gap = 0, past = 0;  // bytes between places and rows; of the targets behind a line
  bool own = false;           // each target has a part of the sources' rows of its own
};

void check_join(const JoinCase& c, bool streamed, std::mt19937& random) {
  INFO(fmt::format("{} members to {} targets, {} rows of {} bytes, gap {}, past {}, {}{}",
                   c.members, c.targets, c.rows, c.bytes, c.gap, c.past, c.own ? "own, " : "",
                   streamed ? "streamed" : ""));
  JoinedRows joined;
  joined.rows = c.rows;
  joined.bytes = c.bytes;
  joined.source_step = (c.own ? c.targets : 1) * c.bytes + c.gap;
  joined.place_step = c.bytes + c.gap;
  joined.target_step = c.members * joined.place_step + (c.gap > 0 ? 64 : 0);
  joined.far = c.rows % 2 == 0;
  std::vector<Room> sources, targets, wanted;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  std::vector<int64_t> offsets;
  for (int64_t m = 0; m < c.members; ++m) {
    sources.emplace_back(c.rows * joined.source_step, int64_t(random() % 64), 0);
    for (int64_t i = 0; i < sources.back().size(); ++i)
      sources.back().data()[i] = std::byte(random() % 256);
  }
  for (int64_t t = 0; t < c.targets; ++t) {
    const int64_t offset = c.own ? (c.targets - 1 - t) * c.bytes : 0;
    if (c.own) offsets.push_back(offset);
    targets.emplace_back(c.rows * joined.target_step, c.past, 0xa5);
    wanted.emplace_back(c.rows * joined.target_step, c.past, 0xa5);
    for (int64_t r = 0; r < c.rows; ++r)
      for (int64_t m = 0; m < c.members; ++m)
        for (int64_t b = 0; b < c.bytes; ++b)
          wanted.back().data()[r * joined.target_step + m * joined.place_step + b] =
              sources[size_t(m)].data()[r * joined.source_step + offset + b];
  }
  for (const Room& source : sources) from.push_back(source.data());
  for (Room& target : targets) to.push_back(target.data());
  join_rows(joined, to, offsets, from, streamed);
  flush_stream();
  for (size_t t = 0; t < targets.size(); ++t) CHECK(targets[t] == wanted[t]);
}

}  // namespace

TEST_CASE("joined rows: every byte in its place in all targets, none beside them", "[rows]") {
  std::mt19937 random(1);
  for (const bool streamed : {false, true}) {
    for (const int64_t bytes :
         {1,  2,  3,  4,  6,   7,   8,   12,  16,  20,  24,   32,   40,   48,
          60, 64, 72, 96, 128, 192, 200, 256, 320, 512, 1000, 4095, 4096, 8256})
      for (const bool own : {false, true})
        for (const int64_t targets : {1, 3}) {
          check_join({4, targets, 9, bytes, 0, 0, own}, streamed, random);
          check_join({5, targets, 3, bytes, 0, 20, own}, streamed, random);
          check_join({3, targets, 5, bytes, 64, 0, own}, streamed, random);
          check_join({2, targets, 4, bytes, 28, 4, own}, streamed, random);
        }
    for (const bool own : {false, true}) {
      check_join({70, 2, 3, 1000, 0, 0, own}, streamed, random);  // a row is more than is staged
      check_join({8, 2, 2, 40000, 0, 0, own}, streamed, random);  // as long ones do by themselves
      check_join({8, 2, 600, 16, 0, 0, own}, streamed, random);   // several times what is staged
      check_join({8, 3, 70, 512, 0, 0, own}, streamed, random);   // several turns
    }
    check_join({300, 1, 100, 4}, streamed, random);
    check_join({1, 1, 1, 100000}, streamed, random);
    check_join({4, 1, 0, 64}, streamed, random);
  }
}

namespace {

// What values of a type are added up in, and back.
template <class T>
auto widened(T value) {
  if constexpr (sizeof(T) == 2)
    return static_cast<float>(value);
  else
    return value;
}

template <class T>
void check_sums(DType dtype) {
  std::mt19937 random(2);
  const SumRows sum = find_sum_rows(dtype);
  if (sum == nullptr) return;  // f64 where there are no lanes of it
  for (const int64_t members : {1, 2, 3, 4, 5, 8, 9, 33})
    for (const int64_t columns : {1, 3, 4, 7, 8, 12, 15, 31, 64, 65, 100, 301})
      for (const bool streamed : {false, true})
        for (const int64_t past : {0, 8, 56}) {
          INFO(fmt::format("{} members, {} columns, streamed {}, past {}", members, columns,
                           streamed, past));
          constexpr int64_t kRows = 3, kSize = sizeof(T);
          const int64_t step = columns * kSize + 2 * kSize, to = columns * kSize + kSize;
          std::vector<Room> sources;
          std::vector<const std::byte*> from;
          for (int64_t m = 0; m < members; ++m) {
            sources.emplace_back(kRows * step, kSize, 0);
            for (int64_t i = 0; i < kRows * step / kSize; ++i) {
              using Wide = decltype(widened(T()));
              const auto value = T(Wide(int32_t(random()) / 1024 % 30000) / Wide(7));
              std::memcpy(sources.back().data() + i * kSize, &value, size_t(kSize));
            }
          }
          for (const Room& source : sources) from.push_back(source.data());
          Room wanted(kRows * to, past, 0xa5), got(kRows * to, past, 0xa5);
          Room same(kRows * to, past, 0xa5), other(kRows * to, (past + 40) % 64, 0xa5);
          for (int64_t r = 0; r < kRows; ++r)
            for (int64_t c = 0; c < columns; ++c) {
              decltype(widened(T())) total = 0;
              for (int64_t m = 0; m < members; ++m) {
                T value;
                std::memcpy(&value, from[size_t(m)] + r * step + c * kSize, size_t(kSize));
                total = m == 0 ? widened(value) : decltype(total)(total + widened(value));
              }
              const T rounded(total);
              std::memcpy(wanted.data() + r * to + c * kSize, &rounded, size_t(kSize));
            }
          std::byte* const one[] = {got.data()};
          std::byte* const two[] = {got.data(), same.data()};
          std::byte* const unlike[] = {got.data(), other.data()};
          for (const std::span<std::byte* const> targets :
               {std::span<std::byte* const>(one), std::span<std::byte* const>(two),
                std::span<std::byte* const>(unlike)}) {
            std::memset(got.data(), 0xa5, size_t(got.size()));
            sum({kRows, columns * kSize}, targets, to, from, step, streamed);
            flush_stream();
            CHECK(got == wanted);
          }
          CHECK(same == wanted);
          CHECK(other == wanted);
        }
}

}  // namespace

TEST_CASE("sums of rows: in the order of the sources, any length and alignment", "[rows]") {
  check_sums<float>(DType::f32);
  check_sums<double>(DType::f64);
  check_sums<int32_t>(DType::s32);
  check_sums<bfloat16>(DType::bf16);
  check_sums<float16>(DType::f16);
}

// Infinities, NaN, zeros of both signs, subnormal numbers and halves of the last digit.
TEST_CASE("sums of rows: numbers of bf16 of every kind", "[rows]") {
  constexpr size_t kCount = 65536;
  std::mt19937 random(3);
  const SumRows sum = find_sum_rows(DType::bf16);
  if (sum == nullptr) return;
  for (const size_t members : {1, 2, 4, 5, 8}) {
    std::vector<std::vector<uint16_t>> sources(members, std::vector<uint16_t>(kCount));
    std::vector<const std::byte*> from;
    for (std::vector<uint16_t>& source : sources) {
      const bool first = &source == sources.data();
      for (size_t i = 0; i < kCount; ++i)  // near each other, so that digits are lost
        source[i] = uint16_t(first ? i : (i + random() % 1024) ^ (random() % 2 << 15));
      from.push_back(reinterpret_cast<const std::byte*>(source.data()));
    }
    std::vector<uint16_t> got(kCount);
    std::byte* const to[] = {reinterpret_cast<std::byte*>(got.data())};
    sum({1, int64_t(kCount) * 2}, std::span(to), 0, from, 0, false);
    int64_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const auto number = [](uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); };
      float total = number(sources[0][i]);
      for (size_t m = 1; m < members; ++m) total += number(sources[m][i]);
      const bfloat16 rounded(total);
      uint16_t bits = 0;
      std::memcpy(&bits, &rounded, 2);
      const bool both_nan = std::isnan(number(bits)) && std::isnan(number(got[i]));
      wrong += !both_nan && bits != got[i];
    }
    CHECK(wrong == 0);
  }
}

}  // namespace gspmd
