#pragma once

#include <cstdint>
#include <string>

#include "gspmd/gspmd.h"

namespace gspmd::examples {

struct Corpus {
  std::string name;  // where the text is from
  std::string train;
  std::string heldout;
};

// The text of one file, of which the last tenth is held out. UserError: the file cannot be read, or
// either part is not longer than `seq` bytes.
Corpus load_file(const std::string& path, int64_t seq);
// The licence texts that Debian installs, both MPL files held out; where they are missing, the
// documents of this project.
Corpus load_default_text(int64_t seq);

// Windows of `seq` bytes at random places and the bytes after each of theirs: s32[batch,seq] both.
// A pure function of seed and step.
struct TokenBatch {
  Array tokens, labels;
};
TokenBatch random_windows(const std::string& text, int64_t batch, int64_t seq, uint32_t seed,
                          int64_t step);

}  // namespace gspmd::examples
