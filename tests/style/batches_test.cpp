// The tests of a module compile in batches of any size: no two of their files define one function.
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <sstream>

#include "style/source_scan.h"

namespace gspmd::style {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "a::b::" of the namespaces open before line `end`, a nameless one as "::".
std::string namespaces_at(const Lines& lines, size_t end) {
  static const std::regex opened(R"x((?:inline )?namespace ?([\w:]*) ?\{)x");
  Lines open;
  for (size_t i = 0; i < end; ++i) {
    std::smatch match;
    if (std::regex_match(lines[i], match, opened))
      open.push_back(match[1].str() + "::");
    else if (lines[i].starts_with("}  // namespace") && !open.empty())
      open.pop_back();
  }
  std::string joined;
  for (const std::string& name : open) joined += name;
  return joined;
}

// "name(types" of a head: the types of the parameters that a call has to give. A parameter's own
// name goes, and the first one with a default ends the list. "" where the head is no function's.
std::string called_as(const std::string& head) {
  const size_t open = head.find('(');
  if (open == std::string::npos || head.starts_with("TEST_CASE")) return "";
  const size_t name = head.find_last_of(" *&", open) + 1;
  std::string form = head.substr(name, open - name + 1);
  std::string parameter;
  int depth = 0;
  for (size_t i = open + 1; i < head.size() && depth >= 0; ++i) {
    const char c = head[i];
    if (c == '=') return form;
    depth += (c == '<' || c == '(') - (c == '>' || c == ')');
    if (depth >= 0 && (c != ',' || depth > 0)) {
      parameter += c;
      continue;
    }
    form += std::regex_replace(parameter, std::regex(R"x(\s*\w+\s*$)x"), "") + ",";
    parameter.clear();
  }
  return form;
}

}  // namespace

TEST_CASE("what a call has to give is read from a function's head", "[style]") {
  CHECK(called_as("std::string f(const std::string& text, const A& a = {}) ") ==
        called_as("std::string f(const std::string& other) "));
  CHECK(called_as("int f(std::map<int, int> a, int b) ") == "f(std::map<int, int>, int,");
  CHECK(called_as("int f(int a) ") != called_as("int f(float a) "));
  CHECK(called_as("TEST_CASE( , ) ").empty());
}

TEST_CASE("the sources of a test module can be compiled as one", "[style]") {
  std::map<std::string, std::string> defined;  // module and function -> file
  for (const SourceFile& file : read_sources(GSPMD_SOURCE_DIR, {"tests"})) {
    if (!file.path.ends_with(".cpp") || file.path.starts_with("tests/package/")) continue;
    const std::string module = file.path.substr(0, file.path.find('/', sizeof("tests/") - 1));
    const Lines lines = lines_of(file.text);
    for (const FunctionSpan& function : find_functions(file.text)) {
      const auto line = static_cast<size_t>(function.first_line - 1);
      const std::string form = called_as(function.head);
      if (form.empty() || lines[line].starts_with(" ")) continue;  // a member
      const auto other =
          defined.emplace(module + ": " + namespaces_at(lines, line) + form, file.path).first;
      INFO(other->first << ") is defined in " << other->second << " and in " << file.path);
      CHECK(other->second == file.path);  // what one file defines twice, its compiler accepted
    }
  }
  CHECK(defined.size() > 1000);
}

}  // namespace gspmd::style
