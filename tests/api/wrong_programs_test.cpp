// Programs that must not compile, and what the compilers say of them.
#include <unistd.h>

#include <cstdio>

#include "api/support.h"

using namespace gspmd;

namespace wrong_programs_test {
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
    {"struct with options that are no fields",
     "struct Config { double rate = 1; int sizes[2] = {}; std::string name; };\n"
     "template <class T> struct Layer { T w; std::optional<T> b; std::vector<T> more; Config c;\n"
     "  std::vector<int> n; double d = 0; GSPMD_FIELDS(w, b, more) };\n"
     "void f(Layer<Array> p) { trace([](Layer<Tensor> q) { return q.w; }, p); }",
     ""},
    {"struct with a field that is not listed",
     "template <class T> struct Layer { T w, b; double d = 0; GSPMD_FIELDS(w) };\n"
     "void f(Layer<Array> p) { trace([](Layer<Tensor> q) { return q.w; }, p); }",
     "GSPMD_FIELDS leaves out a member that holds arrays or tensors: list it"},
    {"struct with a list of structs that is not listed",
     "template <class T> struct Block { T w; GSPMD_FIELDS(w) };\n"
     "template <class T> struct Model { std::vector<Block<T>> blocks; T w; GSPMD_FIELDS(w) };\n"
     "void f(Model<Array> p) { save(\"p\", p); }",
     "GSPMD_FIELDS leaves out a member that holds arrays or tensors: list it"},
    {"struct that leaves a field out on purpose",
     "template <class T> struct Layer { T w; std::optional<T> b; GSPMD_SOME_FIELDS(w) };\n"
     "void f(Layer<Array> p) { trace([](Layer<Tensor> q) { return q.w; }, p); }",
     ""},
    {"brackets", "Tensor f(Tensor x) { return x[0]; }", "parts of a tensor are x(i, j)"},
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
    {"branch by a tensor", "Tensor f(Tensor x) { if (x > 0) return x; return -x; }",
     "branch by cond(p, f, g) or where(p, a, b)"},
    {"tensors joined by &&", "Tensor f(Tensor p, Tensor q) { return where(p && q, p, q); }",
     "join by logical_and, logical_or and logical_not"},
    {"a tensor denied by !", "Tensor f(Tensor p) { return where(!p, 1, p); }",
     "join by logical_and, logical_or and logical_not"},
};

// Mistakes that the compilers say of one program, which has all of them.
const WrongProgram kMistakes[] = {
    {"scan's body without a pair", "Tensor a(Tensor x) { return scan(add, x, x).first; }",
     "scan: the body returns {carry, y}"},
    {"scan's body without a slice",
     "Tensor b(Tensor x) { return scan([](Tensor c) { return std::pair{c, c}; }, x, x).first; }",
     "scan: the body takes the carry, a tree like init, and a slice of xs"},
    {"a number as the carry", "auto c(Tensor x) { return fori_loop(0, 3, add, 0.0); }",
     "write full({dtype, {}}, 2) for a number"},
    {"fori_loop's body without the step",
     "Tensor d(Tensor x) { return fori_loop(0, 3, [](Tensor c) { return c; }, x); }",
     "fori_loop: the body takes the number of the step"},
    {"fori_loop's body that returns a number",
     "Tensor e(Tensor x) { return fori_loop(0, 3, [](Tensor, Tensor) { return 1; }, x); }",
     "fori_loop: the body returns the next carry"},
    {"while_loop's carry as two arguments",
     "auto f(Tensor x) { return while_loop(add, add, std::pair{x, x}); }",
     "while_loop: condition and body take the carry, one tree like init"},
    {"while_loop's condition that is known",
     "auto g(Tensor x) { return while_loop([](Tensor) { return true; }, same, x); }",
     "while_loop: the condition returns a pred tensor"},
    {"cond without what its functions take",
     "Tensor h(Tensor x) { return cond(x > 0, same, same); }",
     "each function takes what is given behind the functions"},
    {"grad of a function of two arguments at one", "auto i(Tensor x) { return grad(add)(x); }",
     "grad, value_and_grad: the function takes as many arguments as are given"},
    {"grad of a function that returns a number",
     "auto j(Tensor x) { return grad([](Tensor) { return 1.0; })(x); }",
     "grad, value_and_grad: the function returns the loss"},
    {"vmap of a function of two arguments at one", "auto k(Tensor x) { return vmap(add)(x); }",
     "the function takes as many arguments as are given, of their types"},
    {"jvp of what is no tuple", "auto m(Tensor x) { return jvp(same, x, x); }",
     "jvp: primals and tangents are tuples"},
    {"jvp of tuples that differ",
     "auto n(Tensor x) { return jvp(same, std::tuple{x}, std::tuple{x, x}); }",
     "jvp(f, std::tuple{x}, std::tuple{v})"},
    {"vjp of what is no tuple", "auto o(Tensor x) { return vjp(same, x); }",
     "vjp: the primals are a tuple"},
    {"shard_map of a function of two arguments at one",
     "auto p(Tensor x, Mesh m) { return shard_map(add, m, {}, {})(x); }",
     "the function takes as many arguments as are given, of their types"},
    {"custom_vjp's forward without residuals",
     "auto q(Tensor x) { return custom_vjp(same, same, add)(x); }",
     "custom_vjp: forward takes the arguments of the function and returns its value and"},
    {"custom_vjp's backward without residuals",
     "const auto kept = [](Tensor a) { return std::pair{a, a}; };\n"
     "auto r(Tensor x) { return custom_vjp(same, kept, same)(x); }",
     "custom_vjp: backward takes the residuals"},
    {"custom_jvp's rule without tuples", "auto s(Tensor x) { return custom_jvp(same, add)(x); }",
     "custom_jvp: the rule takes two tuples"},
    {"the number in a tensor", "float t(Tensor x) { return float(sum(x)); }",
     "the numbers of a tensor are not known while it is traced"},
    {"debug_print of a tree", "void u(Linear<Tensor> layer) { debug_print(\"{}\", layer); }",
     "the values are tensors, arrays or numbers"},
    {"a number in GSPMD_FIELDS",
     "template <class T> struct Sized { T w; int n; GSPMD_FIELDS(w, n) };\n"
     "auto v(Sized<Tensor> p) { return flatten(p); }",
     "GSPMD_FIELDS lists a number, an enum or a text"},
    {"a traced function that returns nothing", "void l(Array x) { trace([](Tensor) {}, x); }",
     "what goes into and comes out of the function are tensors or trees of them"},
};

// What a compiler says of a program.
std::string said_of(const std::string& compiler, const std::string& program) {
  // Tests run side by side.
  const std::string source = fmt::format("{}/wrong_program{}.cpp", GSPMD_BINARY_DIR, ::getpid());
  std::FILE* file = std::fopen(source.c_str(), "w");
  REQUIRE(file != nullptr);
  std::fprintf(file, "#include \"gspmd/gspmd.h\"\nusing namespace gspmd;\n%s\n", program.c_str());
  std::fclose(file);
  // Clang would end after 20 errors.
  const char* const all = compiler.find("clang") == std::string::npos ? "" : " -ferror-limit=0";
  const std::string said = output_of(compiler + all + " -std=c++20 -fsyntax-only -I " +
                                     GSPMD_SOURCE_DIR + "/include " + source);
  std::remove(source.c_str());
  return said;
}

}  // namespace

TEST_CASE("compilers say in words what a function is not that is given to a function",
          "[api][errors]") {
  std::string program =
      "const auto add = [](Tensor a, Tensor b) { return a + b; };\n"
      "const auto same = [](Tensor a) { return a; };\n";
  for (const WrongProgram& mistake : kMistakes) program += std::string(mistake.text) + "\n";
  for (const std::string compiler : {GSPMD_COMPILERS}) {
    const std::string seen = said_of(compiler, program);
    for (const WrongProgram& mistake : kMistakes) {
      INFO(compiler << ": " << mistake.what << "\n" << seen);
      CHECK(seen.find(mistake.said) != std::string::npos);
    }
  }
}

namespace {

// Those of kPrograms that are right, or those that are not, side by side, each in a file of its own
// by name.
std::string side_by_side(bool right) {
  std::string all;
  int number = 0;
  for (const WrongProgram& program : kPrograms) {
    ++number;
    if ((program.said[0] == '\0') != right) continue;
    all += fmt::format("#line 1 \"program_{0}.cpp\"\nnamespace p{0} {{\n{1}\n}}\n", number,
                       program.text);
  }
  return all;
}

}  // namespace

TEST_CASE("compilers say in words what is wrong with a program", "[api][errors]") {
  for (const std::string compiler : {GSPMD_COMPILERS}) {
    const std::string fine = said_of(compiler, side_by_side(true));
    INFO(compiler << ": " << fine);
    CHECK(fine.find("error") == std::string::npos);
    const std::string seen = said_of(compiler, side_by_side(false));
    for (const WrongProgram& program : kPrograms) {
      if (program.said[0] == '\0') continue;
      INFO(program.what << "\n" << seen);
      CHECK(seen.find(program.said) != std::string::npos);
    }
  }
}

}  // namespace wrong_programs_test
