// Programs that must not compile, and what the compilers say of them.
#include <cstdio>

#include "api/support.h"

using namespace gspmd;

namespace {

std::string output_of(const std::string& command) {
  std::string output;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), pipe))
    output.append(buffer, count);
  pclose(pipe);
  return output;
}

struct WrongProgram {
  const char* what;
  const char* text;
  const char* said;
};

const WrongProgram kPrograms[] = {
    {"right", "Tensor f(Tensor x) { return einsum(\"...ij,jk->...ik\", x, x); }", ""},
    {"spec without arrow", "Tensor f(Tensor x) { return einsum(\"ij,jk\", x, x); }",
     "has_no_arrow_before_the_labels_of_the_result"},
    {"spec with too few operands", "Tensor f(Tensor x) { return einsum(\"ij->i\", x, x); }",
     "has_another_number_of_operands_than_are_given"},
    {"spec with a label from nowhere", "Tensor f(Tensor x) { return einsum(\"ij,jk->iz\", x, x); }",
     "has_a_label_in_the_result_that_is_in_no_operand"},
    {"spec with a digit", "Tensor f(Tensor x) { return einsum(\"i1->i\", x); }",
     "has_something_else_than_letters_or_dots_in_an_operand"},
    {"struct without fields",
     "template <class T> struct Layer { T w; };\n"
     "void f(Layer<Array> p) { trace([](Layer<Tensor> q) { return q.w; }, p); }",
     "list the members of a struct in GSPMD_FIELDS"},
    {"number as an argument",
     "void f() { compile([](Tensor x) { return x; }, CompileOptions{}, 2.0f); }",
     "arguments are arrays, shapes or trees of them"},
    {"function of too many arguments",
     "void f(Array x) { compile([](Tensor a, Tensor) { return a; }, CompileOptions{}, x); }",
     "the function has to take the arguments' trees"},
    {"tensors compared by ==", "Tensor f(Tensor x) { return where(x == 0, x, 1); }",
     "compared element by element by equal(a, b)"},
    {"tensors compared by !=", "bool f(Tensor x, Tensor y) { return x != y; }",
     "compared element by element by equal(a, b)"},
};

}  // namespace

TEST_CASE("compilers say in words what is wrong with a program", "[api][errors]") {
  const std::string source = std::string(GSPMD_BINARY_DIR) + "/wrong_program.cpp";
  for (const std::string compiler : {GSPMD_COMPILERS}) {
    for (const WrongProgram& program : kPrograms) {
      std::FILE* file = std::fopen(source.c_str(), "w");
      REQUIRE(file != nullptr);
      std::fprintf(file, "#include \"gspmd/gspmd.h\"\nusing namespace gspmd;\n%s\n", program.text);
      std::fclose(file);
      const std::string seen = output_of(compiler + " -std=c++20 -fsyntax-only -I " +
                                         GSPMD_SOURCE_DIR + "/include " + source);
      INFO(compiler << ": " << program.what << "\n" << seen);
      CHECK((program.said[0] == '\0') == (seen.find("error") == std::string::npos));
      CHECK(seen.find(program.said) != std::string::npos);
    }
  }
}
