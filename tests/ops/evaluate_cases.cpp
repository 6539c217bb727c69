#include "ops/evaluate_cases.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "ops/samples.h"

namespace gspmd::testing {
namespace {

// "f32[2]{1, 2.5}" for messages.
std::string text_of(const std::vector<Array>& arrays) {
  std::string text;
  for (const Array& array : arrays) {
    text += to_string(array.shape()) + "{";
    for (int64_t i = 0; i < array.size(); ++i)
      text += fmt::format("{}{}", i ? "," : "", array.at(i));
    text += "} ";
  }
  return text;
}

}  // namespace

Value run_text(const std::string& body) { return evaluate(*parse_module(with_entry(body)), {}); }

std::vector<Array> literals(const std::string& text) {
  std::istringstream words(text);
  std::vector<Array> arrays;
  std::string shape;
  std::string value;
  while (words >> shape >> value)
    arrays.push_back(run_text(fmt::format("ROOT r = {} constant({})", shape, value)).array);
  return arrays;
}

void check_case(const EvaluateCase& test) {
  INFO(test.name << "\n" << test.body);
  const std::vector<Array> actual = leaves(run_text(test.body));
  const std::vector<Array> expected = literals(test.expected);
  INFO("got      " << text_of(actual) << "\nexpected " << text_of(expected));
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) CHECK(bitwise_equal(actual[i], expected[i]));
}

std::string error_of(const std::string& body) {
  try {
    run_text(body);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace gspmd::testing
