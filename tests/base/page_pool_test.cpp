#include "base/page_pool.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/pages.h"

namespace {

using namespace gspmd;

struct Piece {
  std::byte* memory = nullptr;
  int64_t bytes = 0;
  int mark = 0;
};

bool all_are(const Piece& piece, int value) {
  return std::all_of(piece.memory, piece.memory + piece.bytes,
                     [&](std::byte b) { return b == static_cast<std::byte>(value); });
}

Piece take(PagePool& pool, int64_t bytes, int mark) {
  const Piece piece{pool.take(bytes), bytes, mark};
  REQUIRE(piece.memory != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(piece.memory) % PagePool::kPage == 0);
  CHECK(all_are(piece, 0));
  std::memset(piece.memory, mark, static_cast<size_t>(bytes));
  return piece;
}

TEST_CASE("pieces of pages are zeros, apart from each other, and go back to the system",
          "[pages]") {
  std::mt19937 random(7);
  PagePool pool;
  std::vector<Piece> pieces;
  int64_t most = 0, live = 0;
  for (int i = 0; i < 600; ++i) {
    const bool gives = !pieces.empty() && (i > 450 || random() % 5 < 2);
    if (gives) {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      CHECK(all_are(pieces.back(), pieces.back().mark));
      pool.give_back(pieces.back().memory, pieces.back().bytes);
      live -= pieces.back().bytes;
      pieces.pop_back();
    } else {
      constexpr int64_t least = 4 * PagePool::kPage;
      const auto bytes = least + static_cast<int64_t>(random()) % (PagePool::kHuge - least);
      pieces.push_back(take(pool, bytes, 1 + i % 255));
      live += bytes;
      most = std::max(most, live);
    }
    // Neither twice what is held, nor more than was ever needed and one chunk.
    CHECK(pool.mapped_bytes() <= 2 * most + PagePool::kChunk);
  }
  for (const Piece& piece : pieces) {
    CHECK(all_are(piece, piece.mark));
    pool.give_back(piece.memory, piece.bytes);
  }
  CHECK(pool.mapped_bytes() <= PagePool::kChunk);
}

TEST_CASE("what is given back to the pool serves larger pieces", "[pages]") {
  PagePool pool;
  constexpr int64_t kBytes = PagePool::kHuge / 2;
  std::vector<Piece> pieces;
  for (int i = 0; i < 2 * PagePool::kChunk / kBytes; ++i) pieces.push_back(take(pool, kBytes, 1));
  const int64_t mapped = pool.mapped_bytes();
  // Neighbours in any order, but for one at the end that keeps the chunk.
  for (const size_t i : {1, 3, 2, 0}) pool.give_back(pieces[i].memory, kBytes);
  std::vector<std::byte*> larger;
  for (int i = 0; i < 2; ++i) larger.push_back(pool.take(2 * kBytes - PagePool::kPage));
  CHECK(pool.mapped_bytes() == mapped);
  CHECK(std::min(larger[0], larger[1]) >= pieces[0].memory);
  CHECK(std::max(larger[0], larger[1]) < pieces[4].memory);
}

TEST_CASE("threads take and give back pages at once", "[pages]") {
  const auto work = [](int mark) {
    for (int i = 0; i < 300; ++i) {
      const int64_t bytes = 70000 + 9000 * ((i * 7 + mark) % 150);
      const Piece piece{map_pages(bytes), bytes, mark};
      if (piece.memory == nullptr || !all_are(piece, 0)) return false;
      std::memset(piece.memory, mark, static_cast<size_t>(bytes));
      if (!all_are(piece, mark)) return false;
      unmap_pages(piece.memory, bytes);
    }
    return true;
  };
  bool is_right[2] = {};
  std::thread other([&] { is_right[1] = work(2); });
  is_right[0] = work(1);
  other.join();
  CHECK(is_right[0]);
  CHECK(is_right[1]);
}

}  // namespace
