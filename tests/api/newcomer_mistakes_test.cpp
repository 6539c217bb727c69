// The mistakes of somebody's first programs: each message says what is wrong, where, and what to
// write instead. Those that a compiler finds are in wrong_programs_test.cpp.
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace newcomer_mistakes_test {
namespace {

const Mesh kMesh{{"data", 2}, {"model", 4}};
const Shape kX(DType::f32, {8, 16}), kW(DType::f32, {16, 4});

// The message of what `expression` throws has all the facts and names that line.
#define SAYS_AT(line, expression, ...)                                                  \
  do {                                                                                  \
    const int at = (line);                                                              \
    const std::string seen = message_of<UserError>([&] { expression; });                \
    INFO(seen);                                                                         \
    for (const char* fact : {__VA_ARGS__}) CHECK(seen.find(fact) != std::string::npos); \
    CHECK(seen.find(at_line(__FILE__, at)) != std::string::npos);                       \
  } while (false)
// The same of this statement's line.
#define SAYS(expression, ...) SAYS_AT(Site::here().line, expression, __VA_ARGS__)

}  // namespace

TEST_CASE("an axis that the mesh lacks, or that splits two dims", "[api][errors]") {
  SAYS(trace(
           [](Tensor x) {
             return mesh_split(x, kMesh, {"batch", _});
           },
           kX),
       "mesh_split", "\"batch\"", "data", "model");
  SAYS(trace(
           [](Tensor x) {
             return mesh_split(x, kMesh, {"data", "data"});
           },
           kX),
       "mesh_split", "\"data\"", "one dim");
  SAYS(trace([](Tensor x) { return mesh_split(x, kMesh, {"data"}); }, kX), "mesh_split",
       "f32[8,16]", "rank 2");
}

TEST_CASE("a dim that a tensor lacks, counted from either end", "[api][errors]") {
  SAYS(trace([](Tensor x) { return sum(x, {.axes = 2}); }, kX), "sum: axis 2", "rank 2", "-2 to 1");
  SAYS(trace([](Tensor x) { return softmax(x, {.axis = -3}); }, kX), "softmax: axis -3", "-2 to 1");
  SAYS(trace(
           [](Tensor x) {
             return full({DType::f32, {}}, static_cast<double>(x.dim(-3)));
           },
           kX),
       "dim", "-3", "f32[8,16]");
}

TEST_CASE("two dtypes in one operation", "[api][errors]") {
  SAYS(trace([](Tensor x, Tensor n) { return x * n; }, kX, Shape(DType::s32, {8, 16})),
       "multiply: dtypes f32 and s32", "convert(x, DType::f32)");
  SAYS(trace([](Tensor n) { return n * 0.5; }, Shape(DType::s32, {3})), "0.5", "s32", "convert");
  SAYS(trace([](Tensor n) { return exp(n); }, Shape(DType::s32, {3})), "exp", "floating",
       "convert");
}

TEST_CASE("shapes that do not go together", "[api][errors]") {
  SAYS(trace([](Tensor x, Tensor w) { return x + w; }, kX, kW), "add", "f32[8,16]", "f32[16,4]");
  SAYS(trace([](Tensor x, Tensor w) { return matmul(w, x); }, kX, kW), "matmul", "4", "8");
  SAYS(trace([](Tensor x) { return x + full({DType::f32, {8}}, 1); }, kX), "[8]", "expand_dims");
}

TEST_CASE("a scan whose carry changes its shape, or its dtype", "[api][errors]") {
  const int at_shape = __LINE__ + 2;
  const auto shape = [](Tensor x) {
    return scan(
               [](Tensor h, Tensor v) {
                 return std::pair{concatenate({h, v}, 0), v};
               },
               x(0), x)
        .first;
  };
  SAYS_AT(at_shape, trace(shape, kX), "scan", "f32[32]", "f32[16]", "carry");
  const int at_dtype = __LINE__ + 3;
  const auto dtype = [](Tensor x) {
    const auto total = [](Tensor, Tensor v) { return std::pair{sum(v), v}; };
    return scan(total, zeros({DType::s32, {}}), x).first;
  };
  SAYS_AT(at_dtype, trace(dtype, kX), "scan: the carry", "f32[]", "s32[]", "convert");
}

TEST_CASE("a tensor that leaves the body that made it", "[api][errors]") {
  const int at_leak = __LINE__ + 9;
  const auto leak = [](Tensor x) {
    std::vector<Tensor> outputs;
    scan(
        [&](Tensor h, Tensor v) {
          outputs.push_back(h * v);
          return std::pair{h + v, Nothing{}};
        },
        x(0), x);
    return stack(outputs);
  };
  SAYS_AT(at_leak, trace(leak, kX), "stack", "body", "has ended", "return it from the body");
}

TEST_CASE("a tensor outside of the function that is traced", "[api][errors]") {
  Tensor kept;
  trace([&](Tensor x) { return kept = x * 2; }, kX);
  SAYS(sum(kept), "sum: a tensor of trace \"traced\" is used after that trace ended", "return it");
  SAYS(zeros(kX), "zeros: called outside a trace", "trace() or compile()");
  SAYS(trace([](Tensor x) { return x + Tensor(); }, kX), "add", "no value");
  SAYS(trace([](Tensor x) { return value_and_grad([](Tensor t) { return t * t; })(x).second; }, kX),
       "f32[8,16]", "scalar", "sum()", "mean()");
}

TEST_CASE("a program that is called with other arrays than it was compiled for", "[api][errors]") {
  const auto step = compile([](Tensor x) { return x * 2; }, {.argument_names = {"x"}}, kX);
  SAYS(step(Array(DType::f32, {4, 16})), "argument x", "f32[4,16]", "compiled for f32[8,16]");
  SAYS(step(Array(DType::f64, {8, 16})), "argument x", "f64[8,16]");
}

TEST_CASE("a program compiled for one device, annotated for eight", "[api][errors]") {
  SAYS(compile([](Tensor x) { return mesh_split(x, kMesh, {"data", _}); }, {}, kX), "8", "mesh");
}

TEST_CASE("an integer parameter in the tree that is differentiated", "[api][errors]") {
  const int at_grad = __LINE__ + 2;
  const auto step = [](Tensor x, Tensor n) {
    return grad([x](Tensor t) { return sum(x) * sum(convert(t, DType::f32)); })(n);
  };
  SAYS_AT(at_grad, trace(step, kX, Shape(DType::s32, {3})), "s32[3]", "not floating", "close over");
}

TEST_CASE("indices by which nothing can be taken", "[api][errors]") {
  SAYS(trace([](Tensor x) { return x(8); }, kX), "index 8", "size 8", "-8 to 7");
  SAYS(trace([](Tensor x) { return x(x > 0); }, kX), "mask", "where()");
  SAYS(trace([](Tensor x) { return reshape(x, {8, 17}); }, kX), "reshape", "128", "136");
}

}  // namespace newcomer_mistakes_test
