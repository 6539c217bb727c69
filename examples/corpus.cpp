#include "examples/corpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace gspmd::examples {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLicences = "/usr/share/common-licenses";

std::string read_file(const fs::path& path) {
  std::error_code failed;
  std::ifstream in(path, std::ios::binary);
  if (!fs::is_regular_file(path, failed) || !in) {
    user_error("text: cannot read the file {}; give a readable text file", path.string());
  }
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void check_lengths(const Corpus& corpus, int64_t seq) {
  for (const std::string* part : {&corpus.train, &corpus.heldout}) {
    const auto size = static_cast<int64_t>(part->size());
    if (size > seq) continue;
    user_error(
        "text: the {} part of {} has {} bytes, a window of {} needs {}; give a longer text or "
        "a smaller --seq",
        part == &corpus.train ? "training" : "held-out", corpus.name, size, seq, seq + 1);
  }
}

void hold_out_last_tenth(Corpus& corpus) {
  const size_t kept = corpus.train.size() - corpus.train.size() / 10;
  corpus.heldout = corpus.train.substr(kept);
  corpus.train.resize(kept);
}

// Regular files below `directory` by path; symbolic links are second names of the same text.
std::vector<fs::path> files_below(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (const auto& entry : fs::recursive_directory_iterator(directory, failed)) {
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Corpus licence_texts() {
  Corpus corpus{.name = kLicences, .train = {}, .heldout = {}};
  for (const fs::path& file : files_below(kLicences)) {
    const bool held_out = file.filename().string().rfind("MPL", 0) == 0;
    (held_out ? corpus.heldout : corpus.train) += read_file(file);
  }
  return corpus;
}

Corpus project_documents() {
  const fs::path root = GSPMD_SOURCE_DIR;
  Corpus corpus{.name = "the project's documents", .train = {}, .heldout = {}};
  for (const char* name : {"LICENSE", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"}) {
    if (fs::exists(root / name)) corpus.train += read_file(root / name);
  }
  for (const fs::path& file : files_below(root / "docs")) corpus.train += read_file(file);
  hold_out_last_tenth(corpus);
  return corpus;
}

}  // namespace

Corpus load_file(const std::string& path, int64_t seq) {
  Corpus corpus{.name = path, .train = read_file(path), .heldout = {}};
  hold_out_last_tenth(corpus);
  check_lengths(corpus, seq);
  return corpus;
}

Corpus load_default_text(int64_t seq) {
  Corpus corpus = licence_texts();
  if (corpus.train.empty() || corpus.heldout.empty()) corpus = project_documents();
  check_lengths(corpus, seq);
  return corpus;
}

TokenBatch random_windows(const std::string& text, int64_t batch, int64_t seq, uint32_t seed,
                          int64_t step) {
  const Array places = random_uniform_array(Shape(DType::f64, {batch}), seed, step);
  TokenBatch result{Array(DType::s32, {batch, seq}), Array(DType::s32, {batch, seq})};
  const auto tokens = result.tokens.data<int32_t>();
  const auto labels = result.labels.data<int32_t>();
  const auto choices = static_cast<double>(static_cast<int64_t>(text.size()) - seq);
  for (int64_t b = 0; b < batch; ++b) {
    const auto start = static_cast<size_t>(places.at(b) * choices);
    for (int64_t s = 0; s < seq; ++s) {
      const auto to = static_cast<size_t>(b * seq + s);
      tokens[to] = static_cast<unsigned char>(text[start + static_cast<size_t>(s)]);
      labels[to] = static_cast<unsigned char>(text[start + static_cast<size_t>(s) + 1]);
    }
  }
  return result;
}

}  // namespace gspmd::examples
