#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "gspmd/stablehlo/text.h"
#include "stablehlo/op_cases.h"

namespace gspmd::stablehlo {
namespace {

std::string function(const OpCase& c, const std::string& ops) {
  return "func.func @main(" + c.arguments + ") -> " + c.result + " {\n" + ops +
         "\nreturn %r : " + c.result + "\n}\n";
}

// The parameters of the HLO, of the text that was read: their shapes are not what is tested.
std::string expected(const OpCase& c, const Module& read) {
  std::string parameters;
  for (const Node* parameter : read.entry()->parameters()) {
    std::string line = to_text(*parameter);
    if (line.starts_with("ROOT ")) line = line.substr(5);
    parameters += line + "\n";
  }
  return "HloModule module\n" + c.computations + "\nENTRY main {\n" + parameters + c.hlo + "\n}\n";
}

void check_form(const OpCase& c, const std::string& ops) {
  INFO(c.name << ":\n" << function(c, ops));
  const std::unique_ptr<Module> read = parse_stablehlo(function(c, ops), "case.mlir");
  INFO("reads as\n" << to_text(*read));
  verify_module(*read);
  const std::unique_ptr<Module> wanted = parse_module(expected(c, *read), "expected");
  // In the order of the text, names apart.
  read->remove_unreachable();
  CHECK(structurally_equal(*read, *wanted));
}

void check_cases(const std::vector<OpCase>& cases) {
  for (const OpCase& c : cases) {
    if (!c.pretty.empty()) check_form(c, c.pretty);
    check_form(c, c.generic);
  }
}

}  // namespace

TEST_CASE("ops on elements are the HLO of the specification in both forms", "[ops]") {
  check_cases(elementwise_cases());
}
TEST_CASE("ops that move elements are the HLO of the specification in both forms", "[ops]") {
  check_cases(shape_cases());
}
TEST_CASE("products and linear algebra are the HLO of the specification in both forms", "[ops]") {
  check_cases(contraction_cases());
}
TEST_CASE("ops with regions are the HLO of the specification in both forms", "[ops]") {
  check_cases(region_cases());
}
TEST_CASE("control, collectives, host and CHLO are the HLO of the specification in both forms",
          "[ops]") {
  check_cases(other_cases());
}

}  // namespace gspmd::stablehlo
