// One mistake per check: the message names the function, the numbers and this file's line.
#include <cmath>

#include "api/support.h"
#include "gspmd/ir/text.h"

using namespace gspmd;
using namespace gspmd::test;

namespace errors_trace_test {
namespace {

const Shape kF{DType::f32, {2, 3}};

template <class T>
struct Pair {
  T a, b;
  GSPMD_FIELDS(a, b)
};

}  // namespace

TEST_CASE("functions called outside a trace say where to call them", "[api][errors]") {
  GSPMD_REQUIRE_ERROR(
      "iota: called outside a trace; call it in a function given to trace() or compile()",
      iota({DType::s32, {2}}, 0));
  GSPMD_REQUIRE_ERROR("full: called outside a trace", full({DType::f32, {2}}, 0));
  GSPMD_REQUIRE_ERROR("constant: called outside a trace", constant(Array(DType::f32, {2})));
  GSPMD_REQUIRE_ERROR("random_uniform: called outside a trace", random_uniform(1, {2}));
  GSPMD_REQUIRE_ERROR("add: called outside a trace", Array(DType::f32, {2}) + 1.0);
}

TEST_CASE("tensors of an ended trace are refused", "[api][errors]") {
  Tensor kept;
  trace([&](Tensor x) { return kept = x + 1; }, kF);
  GSPMD_REQUIRE_ERROR("exp: a tensor of trace \"traced\" is used after that trace ended; return it",
                      exp(kept));
  GSPMD_REQUIRE_ERROR("shape: a tensor of trace", kept.shape());
  GSPMD_REQUIRE_ERROR("dim: a tensor of trace", kept.dim(0));
  GSPMD_REQUIRE_ERROR("shape: a tensor has no value yet", Tensor().rank());
  GSPMD_REQUIRE_ERROR("einsum: a tensor of trace", einsum("ij->i", kept));
  GSPMD_REQUIRE_ERROR("named: a tensor of trace", named(kept, "x"));
  GSPMD_REQUIRE_ERROR("mesh_split: a tensor of trace", mesh_split(kept, Mesh{}, {_, _}));
}

TEST_CASE("tensors of two traces do not mix", "[api][errors]") {
  const int line = __LINE__ + 2;
  const auto nested = [](Tensor x) {
    const auto inner = [&](Tensor y) { return x + y; };
    trace({.name = "inner"}, inner, kF);
    return x;
  };
  const std::string seen = message_of<UserError>([&] { trace({.name = "outer"}, nested, kF); });
  CHECK(seen.find("add: tensors of two traces meet, \"outer\" and \"inner\"") == 0);
  CHECK(seen.find(at_line(__FILE__, line)) != std::string::npos);
}

TEST_CASE("after an error in a traced function the next trace works", "[api][errors]") {
  CHECK_THROWS_AS(trace([](Tensor x) { return x + Tensor(); }, kF), UserError);
  CHECK(trace([](Tensor x) { return x + 1; }, kF).results().size() == 1);
}

TEST_CASE("trace checks arguments and results", "[api][errors]") {
  const auto same = [](Tensor x) { return x; };
  const auto options = [](Site site = Site::here()) { return TraceOptions{"fn", {"x"}, site}; };
  GSPMD_REQUIRE_ERROR(
      "fn: argument x is token[2]; give arrays of integer, floating or complex types",
      trace(options(), same, Shape(DType::token, {2})));
  GSPMD_REQUIRE_ERROR("fn: argument x is f32[-1]; sizes must be 0 or more",
                      trace(options(), same, Shape(DType::f32, {-1})));
  const auto plain = [&] { trace(same, Shape(DType::token, {2})); };
  CHECK(message_of<UserError>(plain) ==
        "traced: argument arg0 is token[2]; give arrays of integer, floating or complex types");
  const auto partial = [](Tensor x) { return Pair<Tensor>{x, Tensor()}; };
  GSPMD_REQUIRE_ERROR("fn: result0.b has no value; the function must assign every leaf",
                      trace(options(), partial, kF));
  GSPMD_REQUIRE_ERROR("named: the name of add f32[2,3] is empty",
                      trace([](Tensor x) { return named(x + 1, ""); }, kF));
}

TEST_CASE("value_and_grad needs a floating scalar loss and floating inputs", "[api][errors]") {
  GSPMD_REQUIRE_ERROR(
      "value_and_grad: the function returns exponential f32[2,3]; the loss must be a floating "
      "scalar",
      trace([](Tensor x) { return value_and_grad([](Tensor t) { return exp(t); })(x).second; },
            kF));
  GSPMD_REQUIRE_ERROR("value_and_grad: argument leaf arg0 s32[2] is not floating",
                      trace([](Tensor x) { return grad([](Tensor t) { return sum(t); })(x); },
                            Shape(DType::s32, {2})));
}

TEST_CASE("optimizers check gradients, state, rates and trees", "[api][errors]") {
  const int line = __LINE__ + 6;
  const auto update = [](auto&& change) {
    return [change](Pair<Tensor> p, Tensor extra) {
      Sgd<Pair<Tensor>> sgd{p};
      Pair<Tensor> g = p;
      change(g, sgd, extra);
      return sgd.update(p, g, {.lr = 0.1}).first;
    };
  };
  const Pair<Shape> params{kF, kF};
  const Shape other{DType::f32, {3}};
  const auto message = [&](auto change) {
    const std::string seen = message_of<UserError>([&] { trace(update(change), params, other); });
    INFO(seen);
    CHECK(seen.find(at_line(__FILE__, line)) != std::string::npos);
    return seen;
  };
  using P = Pair<Tensor>&;
  using S = Sgd<Pair<Tensor>>&;
  CHECK(message([](P g, S, Tensor o) {
          g.b = o;
        }).find("sgd: the gradient arg1 f32[3] differs from its parameter arg0.b f32[2,3]") == 0);
  CHECK(message([](P, S s, Tensor o) {
          s.velocity.a = o;
        }).find("sgd: the velocity arg1 f32[3] differs from its parameter") == 0);
  GSPMD_REQUIRE_ERROR(
      "sgd: the learning rate arg0 f32[2,3] must be a number or a tensor without dims",
      trace([](Tensor x) { return Sgd<Tensor>{x}.update(x, x, {.lr = x}).first; }, kF));
  GSPMD_REQUIRE_ERROR(
      "adam: the first moment arg1 f32[3] differs",
      trace(
          [](Tensor x, Tensor o) {
            return Adam<Tensor>{o, x, iota({DType::s32, {1}}, 0)}.update(x, x).first;
          },
          kF, other));
  GSPMD_REQUIRE_ERROR("adam: step counts must be integers",
                      trace(
                          [](Tensor x) {
                            return AdamW<Tensor>{x, x, x}.update(x, x).first;
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("clip_by_global_norm: the largest norm -1 must be positive",
                      trace([](Tensor x) { return clip_by_global_norm(x, -1).first; }, kF));
  GSPMD_REQUIRE_ERROR("clip_by_global_norm: the largest norm arg0 f32[2,3] must be a number or a",
                      trace([](Tensor x) { return clip_by_global_norm(x, x).first; }, kF));
  GSPMD_REQUIRE_ERROR("global_norm: the tree has no leaves",
                      trace([](Tensor) { return global_norm({}); }, kF));
}

TEST_CASE("optimizers refuse rates that make no step and trees of other leaves", "[api][errors]") {
  GSPMD_REQUIRE_ERROR(
      "sgd: the learning rate nan is not finite",
      trace([](Tensor x) { return Sgd<Tensor>{x}.update(x, x, {.lr = NAN}).first; }, kF));
  GSPMD_REQUIRE_ERROR(
      "sgd: momentum -1 is wrong; give 0 or more, and finite",
      trace([](Tensor x) { return Sgd<Tensor>{x}.update(x, x, {.momentum = -1}).first; }, kF));
  const auto adam = [](Tensor x, const AdamOptions& options) {
    return Adam<Tensor>::zeros_like(x).update(x, x, options).first;
  };
  CHECK(message_of<UserError>([&] {
          trace([&](Tensor x) { return adam(x, {.beta1 = 1}); }, kF);
        }).find("adam: beta1 1 is wrong; give 0 or more and less than 1") == 0);
  CHECK(message_of<UserError>([&] {
          trace([&](Tensor x) { return adam(x, {.eps = -1}); }, kF);
        }).find("adam: eps -1 is wrong") == 0);
  using List = std::vector<Tensor>;
  GSPMD_REQUIRE_ERROR(
      "sgd: where the parameters have no more leaves, the gradients have \"1\" (1 leaves and 2)",
      trace(
          [](Tensor x) {
            return Sgd<List>{{x}}.update({x}, {x, x}).first;
          },
          kF));
  GSPMD_REQUIRE_ERROR(
      "adam: where the parameters have \"1\", the first moments have no more leaves",
      trace(
          [](Tensor x) {
            return Adam<List>::zeros_like({x}).update({x, x}, {x, x}).first;
          },
          kF));
}

TEST_CASE("names that HLO text does not take still give text that is read back", "[api][errors]") {
  for (const char* name : {"a b\n", "", "x\"y", "%step"}) {
    const Traced traced = trace(
        TraceOptions{.name = name}, [](Tensor x) { return x + 1; }, kF);
    CHECK(to_text(*parse_module(traced.text())) == traced.text());
  }
}

}  // namespace errors_trace_test
