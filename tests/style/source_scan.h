#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gspmd::style {

// A text file of the project; `path` is relative to the project's root, with '/'.
struct SourceFile {
  std::string path;
  std::string text;
};

// A function definition and its lines, from the first line of its head to the closing brace.
struct FunctionSpan {
  std::string head;  // one line, for messages
  int64_t first_line = 0;
  int64_t lines = 0;
};

// Every .h and .cpp file below `folders` of `root`, sorted by path.
std::vector<SourceFile> read_sources(const std::filesystem::path& root,
                                     const std::vector<std::string>& folders);
// Every other text file that belongs to the project: documents, scripts, CMake files.
std::vector<SourceFile> read_documents(const std::filesystem::path& root);

int64_t line_count(std::string_view text);
// `text` with comments and the contents of literals replaced by blanks; lines stay where they are.
std::string blank_comments_and_literals(std::string_view text);
// Functions found by their braces: a brace at namespace or class level whose head has a parameter
// list.
std::vector<FunctionSpan> find_functions(std::string_view text);
// The names in #include "..." lines, in order.
std::vector<std::string> quoted_includes(std::string_view text);
// The names in #include <...> lines, in order.
std::vector<std::string> library_includes(std::string_view text);

// The value below which `percent` of the sorted values lie; 0 of an empty list.
int64_t percentile(std::vector<int64_t> values, int64_t percent);

}  // namespace gspmd::style
