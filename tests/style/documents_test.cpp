// What documents promise of each other: cited pages and sections exist, design notes are whole.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "style/source_scan.h"

namespace gspmd::style {
namespace {

namespace fs = std::filesystem;

std::vector<SourceFile> all_files() {
  std::vector<SourceFile> files = read_documents(GSPMD_SOURCE_DIR);
  for (SourceFile& file : read_sources(GSPMD_SOURCE_DIR, {"include", "src", "models", "examples",
                                                          "tests", "bench", "fuzz", "docs"}))
    files.push_back(std::move(file));
  return files;
}

// The numbers of a page's headings: "## 2. Phases" has 2, "### 2.1 Boundaries" has 2.1.
std::set<std::string> sections(const std::string& page) {
  static const std::regex heading(R"x((?:^|\n)#+ (\d+(?:\.\d+)*)\.? )x");
  std::set<std::string> found;
  for (std::sregex_iterator at(page.begin(), page.end(), heading), end; at != end; ++at)
    found.insert((*at)[1]);
  return found;
}

struct Citation {
  std::string page;                   // as it is written
  std::vector<std::string> sections;  // numbers behind it
};

// "docs/spec/completion.md 4, 6.1 and 7": a page and three sections of it.
std::vector<Citation> citations(const std::string& text) {
  static const std::regex cited(
      R"x(([\w.][\w./-]*\.md)\b(?: (\d+(?:\.\d+)*(?:(?:, | and | to )\d+(?:\.\d+)*)*))?)x");
  static const std::regex number(R"x(\d+(?:\.\d+)*)x");
  std::vector<Citation> found;
  for (std::sregex_iterator at(text.begin(), text.end(), cited), end; at != end; ++at) {
    Citation citation{(*at)[1], {}};
    const std::string numbers = (*at)[2];
    for (std::sregex_iterator n(numbers.begin(), numbers.end(), number); n != end; ++n)
      citation.sections.push_back(n->str());
    found.push_back(std::move(citation));
  }
  return found;
}

// What is wrong with the citations of a file; `pages` are those of the project.
std::vector<std::string> broken(const SourceFile& file, const std::vector<SourceFile>& pages) {
  std::vector<std::string> found;
  for (const Citation& citation : citations(file.text)) {
    const fs::path beside = fs::path(file.path).parent_path() / citation.page;
    const auto page = std::find_if(pages.begin(), pages.end(), [&](const SourceFile& p) {
      return p.path == citation.page || p.path == beside.lexically_normal().generic_string();
    });
    if (page == pages.end()) {
      found.push_back(file.path + ": there is no " + citation.page);
      continue;
    }
    const std::set<std::string> known = sections(page->text);
    for (const std::string& section : citation.sections)
      if (!known.contains(section))
        found.push_back(file.path + ": " + citation.page + " has no section " + section);
  }
  return found;
}

// The text outside of ``` blocks.
std::string without_blocks(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    const bool fence = line.starts_with("```");
    if (fence) inside = !inside;
    if (!fence && !inside) kept += line + "\n";
  }
  return kept;
}

// Files that a document names between backticks: by their path, or headers and sources by their
// name.
std::vector<std::string> missing_files(const SourceFile& page, const std::vector<SourceFile>& all) {
  static const std::regex named(
      R"x(`((?:src|include|tests|scripts|bench|models)/[\w./*-]+|[\w/]+\.(?:h|cpp))`)x");
  const std::string text = without_blocks(page.text);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), named), end; at != end; ++at) {
    const std::string name = (*at)[1];
    const size_t star = name.find('*');
    const auto fits = [&](const SourceFile& file) {
      if (star != std::string::npos) return file.path.starts_with(name.substr(0, star));
      return file.path == name || file.path.ends_with("/" + name) ||
             file.path.starts_with(name.ends_with('/') ? name : name + "/");
    };
    if (std::none_of(all.begin(), all.end(), fits))
      found.push_back(page.path + ": there is no " + name);
  }
  return found;
}

}  // namespace

TEST_CASE("citations of pages and sections that do not exist are found", "[style]") {
  const std::vector<SourceFile> pages = {{"docs/spec/a.md", "# A\n\n## 1. One\n\n### 1.2 Two\n"}};
  const auto of = [&](const std::string& path, const std::string& text) {
    return broken({path, text}, pages);
  };
  using Found = std::vector<std::string>;
  CHECK(of("src/x.cpp", "// docs/spec/a.md 1.2 and 1: see there") == Found{});
  CHECK(of("docs/spec/b.md", "[a](a.md), a.md 1") == Found{});
  CHECK(of("src/x.cpp", "// a.md 1") == Found{"src/x.cpp: there is no a.md"});
  CHECK(of("src/x.cpp", "// docs/spec/a.md 1, 3.1") ==
        Found{"src/x.cpp: docs/spec/a.md has no section 3.1"});
}

TEST_CASE("every page that is cited exists, and every section", "[style]") {
  std::vector<SourceFile> pages = read_documents(GSPMD_SOURCE_DIR);
  std::erase_if(pages, [](const SourceFile& page) { return !page.path.ends_with(".md"); });
  std::vector<std::string> found;
  for (const SourceFile& file : all_files()) {
    if (file.path == "tests/style/documents_test.cpp") continue;  // has wrong ones on purpose
    for (std::string& message : broken(file, pages)) found.push_back(std::move(message));
  }
  CHECK(found == std::vector<std::string>{});
}

TEST_CASE("every file that a document names exists", "[style]") {
  const std::vector<SourceFile> files = all_files();
  std::vector<std::string> found;
  for (const SourceFile& page : files)
    if (page.path.ends_with(".md") && page.path != "CHANGELOG.md")
      for (std::string& message : missing_files(page, files)) found.push_back(std::move(message));
  CHECK(found == std::vector<std::string>{});
  CHECK(missing_files({"a.md", "`src/b.h`, `c.h`, `src/*.h`, `src/`\n```\n`src/d.h`\n```\n"},
                      {{"src/c.h", ""}}) == std::vector<std::string>{"a.md: there is no src/b.h"});
}

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
