// Every other element and elements in turn, of all sizes and counts, against indices.
#include "kernels/loop_strides.h"

#include <catch2/catch.hpp>

#include "kernels/walled.h"

namespace gspmd {
namespace {

// Element i of an array is i * 7 + salt, as many bytes of it as there are.
Array strided_bytes(int64_t elements, int64_t size, int64_t salt) {
  Array a(DType::u8, {elements * size});
  for (int64_t i = 0; i < a.size(); ++i)
    a.set(i, static_cast<double>(((i / size * 7 + salt) >> (8 * (i % size) % 16)) % 251));
  return a;
}

std::byte element_byte(const Array& a, int64_t element, int64_t size, int64_t byte) {
  return a.bytes()[static_cast<size_t>(element * size + byte)];
}

}  // namespace

TEST_CASE("loop strides: every other element, and none behind it", "[loop]") {
  for (const int64_t size : {1, 2, 4, 8})
    for (int64_t n = 1; n < 150; ++n) {
      const Array x = strided_bytes(2 * n - 1, size, n);
      std::vector<std::byte> out(static_cast<size_t>(n * size + 64), std::byte{77});
      for (const bool before : {true, false}) {
        const Array from = walled(x, before);
        loop_strides(size).every_other(out.data(), from.bytes().data(), n);
        int64_t wrong = 0;
        for (int64_t i = 0; i < n * size; ++i)
          wrong += out[static_cast<size_t>(i)] != element_byte(x, i / size * 2, size, i % size);
        for (size_t i = static_cast<size_t>(n * size); i < out.size(); ++i)
          wrong += out[i] != std::byte{77};
        INFO("size " << size << " count " << n);
        REQUIRE(wrong == 0);
      }
    }
}

TEST_CASE("loop strides: elements of two arrays in turn", "[loop]") {
  for (const int64_t size : {1, 2, 4, 8})
    for (int64_t n = 0; n < 150; ++n) {
      const Array a = strided_bytes(n + 1, size, 3), b = strided_bytes(n + 1, size, 11);
      std::vector<std::byte> out(static_cast<size_t>(2 * n * size + 64), std::byte{77});
      loop_strides(size).in_turn(out.data(), a.bytes().data(), b.bytes().data(), n);
      int64_t wrong = 0;
      for (int64_t i = 0; i < 2 * n * size; ++i) {
        const int64_t element = i / size;
        wrong += out[static_cast<size_t>(i)] !=
                 element_byte(element % 2 == 0 ? a : b, element / 2, size, i % size);
      }
      for (size_t i = static_cast<size_t>(2 * n * size); i < out.size(); ++i)
        wrong += out[i] != std::byte{77};
      INFO("size " << size << " count " << n);
      REQUIRE(wrong == 0);
    }
}

}  // namespace gspmd
