#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace gspmd::fuzz {

// What LLVMFuzzerCustomMutator has to do: one to three changes by `mutate(text, random)`, which
// gives the changed text; of one input in sixteen libFuzzer's own.
template <class Mutate>
size_t custom_mutate(uint8_t* data, size_t size, size_t max_size, unsigned int seed,
                     Mutate mutate) {
  std::minstd_rand random(seed);
  if (random() % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string text(reinterpret_cast<const char*>(data), size);
  for (size_t changes = 1 + random() % 3; changes > 0; --changes)
    text = mutate(std::move(text), random);
  text.resize(std::min(text.size(), max_size));
  if (!text.empty()) std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace gspmd::fuzz
