#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gspmd::examples {

// A byte-level n-gram model with Witten-Bell smoothing: with a context of k bytes seen c times and
// followed by t different bytes, P_k(w) = (count(w) + t P_{k-1}(w)) / (c + t), and P_{-1} = 1/256.
class NgramModel {
 public:
  // `order` bytes of context, 0 to 6.
  NgramModel(std::string_view text, int64_t order);
  double nats_per_byte(std::string_view text) const;

 private:
  struct Context {
    int64_t seen = 0;
    int64_t followers = 0;
  };
  double probability(std::string_view text, size_t position) const;

  // By length of context; keys hold the context's bytes, for counts also the byte after it.
  std::vector<std::unordered_map<uint64_t, Context>> contexts_;
  std::vector<std::unordered_map<uint64_t, int64_t>> counts_;
};

}  // namespace gspmd::examples
