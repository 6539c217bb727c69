// Whether the tables of cases have every differentiable builder: read from the public headers.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "derivatives/checks.h"

using namespace gspmd::test;

namespace {

// Builders without a case, by reason.
const std::map<std::string, std::vector<std::string>> kWithout = {
    {"the result is pred, or made of integers",
     {"All::operator()",
      "any",
      "equal",
      "not_equal",
      "operator<",
      "operator<=",
      "operator>",
      "operator>=",
      "isnan",
      "isinf",
      "is_finite",
      "all_finite",
      "logical_not",
      "logical_and",
      "logical_or",
      "logical_xor",
      "operator&",
      "operator|",
      "operator^",
      "operator~",
      "operator<<",
      "operator>>",
      "popcount",
      "clz",
      "shift_right_logical",
      "random_bits",
      "random_randint",
      "random_permutation",
      "one_hot"}},
    {"takes no tensor of numbers: a constant",
     {"arange", "linspace", "eye", "tri", "constant", "full", "zeros", "ones", "zeros_like",
      "iota"}},
    {"bits, or neighbours in a number format, have no derivative", {"bitcast", "nextafter"}},
    {"an error says that it has no gradient", {"while_loop"}},
    {"rounds to 16 bits: tests/api/precision_test.cpp", {"at_precision", "stochastic_convert"}},
    {"state, which other layers return",
     {"BatchStatistics", "KeyValueCache", "LstmState", "LossScale"}},
    {"is the case operator()", {"Tensor::operator()"}},
    {"traces, compiles, stores or prints, or walks over trees",
     {"compile", "TraceSession::parameter", "save", "load", "load_into", "debug_print",
      "debug_check", "for_each_leaf", "map_tree", "map_leaves", "flatten", "leaf_count_of"}},
};

// Namespace gspmd of a header in one line, without comments and without what is in detail.
std::string declarations(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string all, line;
  bool inside = false;
  while (std::getline(file, line) && line.rfind("}  // namespace gspmd", 0) != 0) {
    if (line.rfind("namespace detail {", 0) == 0) inside = true;
    if (!inside) {
      std::istringstream words(line.substr(0, line.find("//")));
      for (std::string word; words >> word;) all += word + " ";
    }
    if (line.rfind("}  // namespace detail", 0) == 0) inside = false;
  }
  return all;
}

// Without the bodies of classes and functions.
std::string outermost(const std::string& text) {
  std::string kept;
  int depth = 0;
  for (const char c : text) {
    depth -= c == '}' ? 1 : 0;
    if (depth <= 1) kept += c;
    depth += c == '{' ? 1 : 0;
  }
  return kept;
}

// Adds the last group of every match, behind `scope`.
void add_matches(const std::string& text, const char* pattern, const std::string& scope,
                 std::set<std::string>& names) {
  const std::regex expression(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
    names.insert(scope + at->str(at->size() - 1));
}

// The functions of exported classes that return a tensor.
void add_members(const std::string& text, std::set<std::string>& names) {
  const std::regex head("(class|struct) GSPMD_API (\\w+) \\{");
  for (std::sregex_iterator at(text.begin(), text.end(), head), end; at != end; ++at) {
    const auto begin = static_cast<size_t>(at->position() + at->length());
    size_t stop = begin;
    for (int depth = 1; depth > 0 && stop < text.size(); ++stop)
      depth += text[stop] == '{' ? 1 : text[stop] == '}' ? -1 : 0;
    add_matches(text.substr(begin, stop - begin), " Tensor (operator\\(\\)|\\w+)\\(",
                at->str(2) + "::", names);
  }
}

std::set<std::string> builders() {
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(GSPMD_SOURCE_DIR "/include/gspmd/api")) {
    const std::string all = declarations(entry.path()), text = outermost(all);
    add_matches(text,
                "GSPMD_API (Tensor&?|std::vector<Tensor>|std::pair<Tensor, Tensor>) "
                "(operator[^ (]+|\\w+)\\(",
                "", names);
    add_matches(text, "template <class (T|Tree)> struct (\\w+) \\{", "", names);
    add_matches(text,
                "template <[^<>]*> (requires [^()]* )?(auto|void|bool|int64_t|Carry|Tree|Tensor|"
                "std::pair<Tree, Tensor>|std::vector<[^()]*>|rebind_t<[^()]*>) (\\w+)\\(",
                "", names);
    add_members(all, names);
  }
  return names;
}

// What is before ": of what" or " (of what)".
std::set<std::string> names_of_cases() {
  std::set<std::string> names;
  for (const auto& table : {elementwise_cases(), reduction_cases(), indexing_cases(),
                            arranging_cases(), linalg_cases(), fourier_cases(), window_cases(),
                            network_cases(), layer_cases(), control_cases(), mesh_cases()})
    for (const Case& c : table)
      names.insert(c.name.substr(0, std::min(c.name.find(": "), c.name.find(" ("))));
  return names;
}

}  // namespace

TEST_CASE("every builder of the public headers has a case or a reason to have none", "[grad]") {
  const std::set<std::string> declared = builders(), cases = names_of_cases();
  CHECK(declared.size() > 250);
  std::set<std::string> excused;
  for (const auto& [reason, names] : kWithout) excused.insert(names.begin(), names.end());
  for (const std::string& name : declared) {
    INFO(name << " has neither a case in tests/derivatives nor a reason in this file");
    CHECK(cases.count(name) + excused.count(name) >= 1);
  }
  for (const std::string& name : excused) {
    INFO(name << " is no builder");
    CHECK(declared.count(name) == 1);
  }
}
