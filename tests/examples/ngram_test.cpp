#include "examples/ngram.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace gspmd::examples {

TEST_CASE("n-gram: Witten-Bell probabilities by hand", "[examples]") {
  // "aab": a twice, b once; after a: a once, b once.
  const double a0 = (2 + 2.0 / 256) / (3 + 2), b0 = (1 + 2.0 / 256) / (3 + 2);
  CHECK(NgramModel("aab", 0).nats_per_byte("ab") ==
        Approx(-(std::log(a0) + std::log(b0)) / 2).epsilon(1e-12));
  const double b_after_a = (1 + 2 * b0) / (2 + 2);
  CHECK(NgramModel("aab", 1).nats_per_byte("ab") ==
        Approx(-(std::log(a0) + std::log(b_after_a)) / 2).epsilon(1e-12));
}

TEST_CASE("n-gram: a context never seen falls back to the shorter one", "[examples]") {
  const double a0 = (2 + 2.0 / 256) / (3 + 2), z0 = (2.0 / 256) / (3 + 2);
  CHECK(NgramModel("aab", 1).nats_per_byte("za") ==
        Approx(-(std::log(z0) + std::log(a0)) / 2).epsilon(1e-12));
}

TEST_CASE("n-gram: the probabilities of all bytes add up to 1", "[examples]") {
  const NgramModel model("the cat sat on the mat", 2);
  const double prefix = model.nats_per_byte("th") * 2;
  double total = 0;
  for (int c = 0; c < 256; ++c) {
    const std::string text = std::string("th") + static_cast<char>(c);
    total += std::exp(-(model.nats_per_byte(text) * 3 - prefix));
  }
  CHECK(total == Approx(1).epsilon(1e-12));
}

TEST_CASE("n-gram: longer contexts know a repeated text better", "[examples]") {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "abcabd";
  CHECK(NgramModel(text, 4).nats_per_byte(text) < NgramModel(text, 1).nats_per_byte(text) / 2);
}

}  // namespace gspmd::examples
