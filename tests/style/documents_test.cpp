// What documents promise: design notes are whole.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "style/source_scan.h"

namespace gspmd::style {

namespace fs = std::filesystem;

TEST_CASE("design notes say context, decision, what was rejected, consequences", "[style]") {
  std::vector<std::string> found;
  int64_t notes = 0;
  for (const SourceFile& file : read_documents(GSPMD_SOURCE_DIR)) {
    if (!file.path.starts_with("docs/design/") || !file.path.ends_with(".md")) continue;
    ++notes;
    const std::string number = fs::path(file.path).filename().string().substr(0, 4);
    if (!file.text.starts_with("# " + number + ": ")) found.push_back(file.path + ": title");
    size_t at = 0;
    for (const char* part : {"\n**Context", "\n**Decision", "\n**Rejected", "\n**Consequences"}) {
      const size_t next = file.text.find(part, at);
      if (next == std::string::npos) found.push_back(file.path + ": " + (part + 3));
      at = std::min(next, file.text.size());
    }
  }
  CHECK(notes > 0);
  CHECK(found == std::vector<std::string>{});
}

}  // namespace gspmd::style
