#include "style/source_scan.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

namespace gspmd::style {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

SourceFile source_file(const fs::path& root, const fs::path& path) {
  return {fs::relative(path, root).generic_string(), read_text(path)};
}

void sort_by_path(std::vector<SourceFile>& files) {
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
}

// The end of a literal that starts at `i`, one past its closing quote.
size_t literal_end(std::string_view text, size_t i) {
  const char quote = text[i];
  if (quote == '"' && i > 0 && text[i - 1] == 'R') {
    const size_t open = text.find('(', i);
    if (open == std::string_view::npos) return text.size();
    std::string close(1, ')');
    close.append(text.substr(i + 1, open - i - 1)).append(1, '"');
    const size_t end = text.find(close, open);
    return end == std::string_view::npos ? text.size() : end + close.size();
  }
  for (size_t j = i + 1; j < text.size(); ++j) {
    if (text[j] == '\\')
      ++j;
    else if (text[j] == quote || text[j] == '\n')
      return j + 1;
  }
  return text.size();
}

// The end of a comment, literal or digit separator at `i`; `i` where none starts there.
size_t skipped_end(std::string_view text, size_t i) {
  if (text.substr(i, 2) == "//") return std::min(text.find('\n', i), text.size());
  if (text.substr(i, 2) == "/*") {
    const size_t end = text.find("*/", i + 2);
    return end == std::string_view::npos ? text.size() : end + 2;
  }
  if (text[i] == '"') return literal_end(text, i);
  if (text[i] == '\'') {
    const bool separator = i > 0 && std::isalnum(static_cast<unsigned char>(text[i - 1]));
    return separator ? i + 1 : literal_end(text, i);
  }
  return i;
}

bool has_word(std::string_view text, std::string_view word) {
  auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool starts = at == 0 || !is_name(text[at - 1]);
    const size_t end = at + word.size();
    if (starts && (end == text.size() || !is_name(text[end]))) return true;
  }
  return false;
}

enum class Scope { transparent, function, data };

// What a brace opens, from the text between the last ';', '{' or '}' and the brace.
Scope classify(std::string_view head) {
  const size_t paren = head.find('(');
  const std::string_view before = head.substr(0, paren);
  if (has_word(before, "operator")) return Scope::function;
  for (const char* word : {"namespace", "extern"}) {
    if (has_word(before, word)) return Scope::transparent;
  }
  if (before.find('=') != std::string_view::npos) return Scope::data;
  if (paren != std::string_view::npos) return Scope::function;
  for (const char* word : {"class", "struct", "union"}) {
    if (has_word(before, word)) return Scope::transparent;
  }
  return Scope::data;
}

std::string one_line(std::string_view head) {
  std::string line;
  for (const char c : head) {
    const bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!blank)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  return line.substr(0, 90);
}

// Preprocessor lines (and their continuations) blanked: their braces need not match.
void blank_preprocessor(std::string& text) {
  bool continued = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const size_t first = text.find_first_not_of(" \t", begin);
    if (continued || (first < end && text[first] == '#')) {
      continued = end > begin && text[end - 1] == '\\';
      std::fill(text.begin() + int64_t(begin), text.begin() + int64_t(end), ' ');
    }
    begin = end + 1;
  }
}

}  // namespace

std::vector<SourceFile> read_sources(const fs::path& root,
                                     const std::vector<std::string>& folders) {
  std::vector<SourceFile> files;
  for (const std::string& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".h" || extension == ".cpp")
        files.push_back(source_file(root, entry.path()));
    }
  }
  sort_by_path(files);
  return files;
}

std::vector<SourceFile> read_documents(const fs::path& root) {
  std::vector<SourceFile> files;
  auto add = [&](const fs::path& path) { files.push_back(source_file(root, path)); };
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();  // .git is a file in a git worktree
    if (entry.is_regular_file() && name != "LICENSE" && name != ".git") add(entry.path());
  }
  for (const char* folder : {"docs", "scripts", ".ci"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file()) add(entry.path());
    }
  }
  sort_by_path(files);
  return files;
}

int64_t line_count(std::string_view text) {
  return std::count(text.begin(), text.end(), '\n') + (text.empty() || text.back() == '\n' ? 0 : 1);
}

std::string blank_comments_and_literals(std::string_view text) {
  std::string out(text);
  for (size_t i = 0; i < text.size();) {
    const size_t end = skipped_end(text, i);
    for (size_t j = i; j < end; ++j) {
      if (out[j] != '\n') out[j] = ' ';
    }
    i = std::max(end, i + 1);
  }
  return out;
}

std::vector<FunctionSpan> find_functions(std::string_view text) {
  std::string code = blank_comments_and_literals(text);
  blank_preprocessor(code);
  std::vector<FunctionSpan> found;
  int64_t line = 1;
  int64_t depth = 0;      // of braces inside the function or data that is being skipped
  int64_t head_line = 0;  // 0: the head has no text yet
  Scope skipping = Scope::transparent;
  std::string head;
  for (const char c : code) {
    if (c == '\n') ++line;
    if (depth > 0) {
      if (c == '{') ++depth;
      if (c == '}' && --depth == 0) {
        if (skipping == Scope::function) {
          found.push_back({one_line(head), head_line, line - head_line + 1});
        }
        head.clear();
        head_line = 0;
      }
    } else if (c == '{') {
      skipping = classify(head);
      if (skipping == Scope::transparent) {
        head.clear();
        head_line = 0;
      } else {
        depth = 1;
      }
    } else if (c == '}' || c == ';') {
      head.clear();
      head_line = 0;
    } else {
      if (head_line == 0 && !std::isspace(static_cast<unsigned char>(c))) head_line = line;
      if (head_line != 0) head += c;
    }
  }
  return found;
}

namespace {
std::vector<std::string> includes(std::string_view text, char open, char close) {
  std::vector<std::string> names;
  std::istringstream lines{std::string(text)};
  const std::string prefix = std::string("#include ") + open;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(prefix, 0) != 0) continue;
    names.push_back(line.substr(prefix.size(), line.find(close, prefix.size()) - prefix.size()));
  }
  return names;
}
}  // namespace

std::vector<std::string> quoted_includes(std::string_view text) { return includes(text, '"', '"'); }

std::vector<std::string> library_includes(std::string_view text) {
  return includes(text, '<', '>');
}

int64_t percentile(std::vector<int64_t> values, int64_t percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const int64_t last = static_cast<int64_t>(values.size()) - 1;
  return values[static_cast<size_t>(last * percent / 100)];
}

}  // namespace gspmd::style
