// One mistake per check: the message names the argument, the call and this file's line.
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace errors_executable_test {
namespace {

template <class T>
struct Params {
  T w;
  std::vector<T> layers;
  GSPMD_FIELDS(w, layers)
};

const Mesh kMesh{{"data", 2}};

Params<Array> sample(int64_t layers = 2) {
  return {Array(DType::f32, {4}), std::vector<Array>(size_t(layers), Array(DType::f32, {4}))};
}

auto step_of(const std::vector<int64_t>& donate) {
  const auto fn = [](Params<Tensor> p, Tensor x) {
    return std::pair{map_leaves([&](const Tensor& leaf) { return leaf + x; }, p), x * 2};
  };
  return compile(fn, {.mesh = kMesh, .donate = donate, .argument_names = {"params", "x"}}, sample(),
                 Array(DType::f32, {4}));
}

Params<Array> separate() {
  return map_tree(sample(), [](const std::string&, const Array& a) { return a.clone(); });
}

}  // namespace

TEST_CASE("arguments that differ from the compiled ones are named by path", "[api][errors]") {
  const auto step = step_of({});
  const Array x(DType::f32, {4});
  GSPMD_REQUIRE_ERROR(
      "step: argument x of call 1 is f32[5], but the function was compiled for f32[4]",
      step(separate(), Array(DType::f32, {5})));
  GSPMD_REQUIRE_ERROR("step: argument x of call 1 is s32[4]",
                      step(separate(), Array(DType::s32, {4})));
  GSPMD_REQUIRE_ERROR("step: argument x of call 1 has no value", step(separate(), Array()));
  GSPMD_REQUIRE_ERROR(
      "step: the arguments of call 1 have params.layers.2 where the compiled function has x",
      step(sample(3), x));
  GSPMD_REQUIRE_ERROR(
      "step: the arguments of call 1 have x where the compiled function has params.layers.1",
      step(sample(1), x));
}

TEST_CASE("a donated array cannot be used again", "[api][errors]") {
  const auto step = step_of({0});
  const Array x(DType::f32, {4});
  const Params<Array> first = step(separate(), x).first;
  const Params<Array> second = step(first, x).first;
  const char* taker = "argument params.w of call 2 of step";
  GSPMD_REQUIRE_ERROR(std::string("step: argument params.w of call 3 was donated to ") + taker,
                      step(first, x));
  CHECK(message_of<UserError>([&] { first.w.at(0); }).find(taker) != std::string::npos);
  CHECK(values(second.w) == std::vector<double>{0, 0, 0, 0});
}

TEST_CASE("a donated array cannot be passed twice", "[api][errors]") {
  const auto step = step_of({0});
  Params<Array> params = separate();
  params.layers[1] = params.w;
  const Array x(DType::f32, {4});
  GSPMD_REQUIRE_ERROR(
      "step: the array passed as argument params.layers.1 of call 1 is also argument params.w",
      step(params, x));
  Params<Array> fine = separate();
  GSPMD_REQUIRE_ERROR("is also argument params.w of the same call", step(fine, fine.w));
}

TEST_CASE("donate must name arguments whose new values are returned", "[api][errors]") {
  const Shape s(DType::f32, {4});
  const auto fn = [](Tensor x) { return sum(x); };
  GSPMD_REQUIRE_ERROR(
      "compile: argument 0 (arg0) is donated, but no result has its type and leaves",
      compile(fn, {.donate = {0}}, s));
  GSPMD_REQUIRE_ERROR("compile: donate names argument 2, but step has 1 arguments",
                      compile(fn, {.donate = {2}}, s));
  const auto same = [](Tensor x) { return x + 1; };
  GSPMD_REQUIRE_ERROR("compile: donate names argument 0 twice",
                      compile(same, {.donate = {0, 0}}, s));
}

TEST_CASE("compile checks threads and passes", "[api][errors]") {
  const Shape s(DType::f32, {4});
  const auto fn = [](Tensor x) { return x + 1; };
  GSPMD_REQUIRE_ERROR("compile: -1 threads; give 1 to 1024", compile(fn, {.threads = -1}, s));
  GSPMD_REQUIRE_ERROR("disable: there is no pass \"nonsense\"",
                      compile(fn, {.disabled_passes = {"nonsense"}}, s));
  GSPMD_REQUIRE_ERROR("disable: keep-local keeps a stage of the module that is read later",
                      compile(fn, {.disabled_passes = {"keep-local"}}, s));
  GSPMD_REQUIRE_ERROR("compile: dump_after names \"nonsense\"; passes are shardy, join-async",
                      compile(fn, {.dump_after = {"nonsense"}}, s));
  GSPMD_REQUIRE_ERROR("compile: 2 argument names for the 1 arguments of step",
                      compile(fn, {.argument_names = {"x", "y"}}, s));
  GSPMD_REQUIRE_ERROR(
      "compile: two arguments of step are named \"x\"",
      compile([](Tensor a, Tensor b) { return a + b; }, {.argument_names = {"x", "x"}}, s, s));
  GSPMD_REQUIRE_ERROR("step: argument arg0 is an empty Array", compile(fn, {}, Array()));
  const auto inspected = compile(fn, {.prepare = false}, s);
  GSPMD_REQUIRE_ERROR("step: compiled with prepare = false", inspected(Array(s)));
}

TEST_CASE("options that were declared without braces have no line, rather than their header's",
          "[api][errors]") {
  const auto message = [](const auto& body) {
    try {
      body();
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto same = [](Tensor x) { return x; };
  const Shape numbers(DType::f32, {4}), negative(DType::f32, {-4});
  CompileOptions compile_options;
  compile_options.memory_limit = 1;
  TraceOptions trace_options;
  for (const std::string& text : {message([&] { compile(same, compile_options, numbers); }),
                                  message([&] { compile(same, compile_options, negative); }),
                                  message([&] { trace(trace_options, same, negative); })}) {
    INFO(text);
    CHECK(text.size() > 20);
    CHECK(text.find(".h:") == std::string::npos);
  }
}

TEST_CASE("leaves of an executable are looked up by path", "[api][errors]") {
  const auto step = step_of({});
  GSPMD_REQUIRE_ERROR(
      "step: there is no argument \"params.v\"; paths are params.w, params.layers.0, "
      "params.layers.1, x",
      step.parameter_sharding("params.v"));
  GSPMD_REQUIRE_ERROR("step: there is no result \"y\"", step.result_sharding("y"));
  GSPMD_REQUIRE_ERROR("step: argument 9 is outside the 4 leaves", step.parameter_sharding(9));
  GSPMD_REQUIRE_ERROR("step: result -1 is outside the 4 leaves", step.result_sharding(-1));
}

TEST_CASE("arrays on the devices cannot be written element by element", "[api][errors]") {
  const auto step = step_of({});
  Array x = step(separate(), Array(DType::f32, {4})).second;
  CHECK(message_of<UserError>([&] { x.set(0, 1); }) ==
        "array: f32[4] lives on the devices and cannot be written element by element; clone() it");
  Array copy = x.clone();
  copy.set(0, 7);
  CHECK(copy.at(0) == 7);
  CHECK(x.at(0) == 0);
}

}  // namespace errors_executable_test
