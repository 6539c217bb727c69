#include "gspmd/api/custom_op.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "api/support.h"
#include "gspmd/ir/text.h"

namespace gspmd::test {
namespace {

using Arrays = std::vector<Array>;
using Shapes = std::vector<Shape>;

Shapes as_first(const Shapes& operands, const std::string&) { return {operands.at(0)}; }

// relu(x) * scale over b,i and i, by its definition; `config` is the slope below 0.
CustomOp scaled_relu() {
  CustomOp op;
  op.name = "test.scaled_relu";
  op.infer = [](const Shapes& operands, const std::string&) -> Shapes {
    if (operands.size() != 2 || operands[0].dims.back() != operands[1].dims.at(0))
      user_error("scaled_relu: x is b,i and the scale i");
    return {operands[0]};
  };
  op.loops = [](const Shapes&, const std::string&) { return CustomLoops{"bi,i->bi"}; };
  op.reference = [](const Arrays& x, const std::string& config) -> Arrays {
    const double slope = config.empty() ? 0 : std::stod(config);
    Array y(x[0].shape());
    for (int64_t e = 0; e < y.size(); ++e) {
      const double value = x[0].at(e);
      y.set(e, (value > 0 ? value : slope * value) * x[1].at(e % x[1].size()));
    }
    return {y};
  };
  op.kernel = [](const CustomShapes& shapes) {
    PreparedKernel kernel;
    if (shapes.operands[0].dtype != DType::f64) return kernel;
    const double slope = shapes.config.empty() ? 0 : std::stod(shapes.config);
    const int64_t n = shapes.operands[1].dims[0], all = shapes.operands[0].elements_count();
    kernel.run = [slope, n, all](const KernelArgs& args) {
      const auto* x = reinterpret_cast<const double*>(args.operands[0]);
      const auto* scale = reinterpret_cast<const double*>(args.operands[1]);
      auto* y = reinterpret_cast<double*>(args.results[0]);
      for (int64_t e = 0; e < all; ++e) y[e] = (x[e] > 0 ? x[e] : slope * x[e]) * scale[e % n];
    };
    return kernel;
  };
  op.gradient = [](const CustomCotangents& given) -> std::vector<Tensor> {
    const Tensor &x = given.operands[0], &scale = given.operands[1], &c = given.cotangents[0];
    const double slope = given.config.empty() ? 0 : std::stod(given.config);
    const Tensor bent = where(x > 0, c, c * slope);
    return {bent * scale, sum(bent * x, {.axes = 0})};
  };
  op.flops = [](const CustomShapes& shapes) { return 2 * shapes.results[0].elements_count(); };
  return op;
}

// sum over i of x[b,i] w[i,j] times a scalar: a loop that is summed, and a scalar that starts none.
CustomOp product() {
  CustomOp op;
  op.name = "test.product";
  op.infer = [](const Shapes& operands, const std::string&) -> Shapes {
    return {Shape(operands[0].dtype, {operands[0].dims[0], operands[1].dims[1]})};
  };
  op.loops = [](const Shapes&, const std::string&) { return CustomLoops{"bi,ij,->bj"}; };
  op.reference = [](const Arrays& x, const std::string&) -> Arrays {
    const int64_t b = x[0].dims()[0], n = x[0].dims()[1], m = x[1].dims()[1];
    Array y(Shape(x[0].dtype(), {b, m}));
    for (int64_t r = 0; r < b; ++r)
      for (int64_t c = 0; c < m; ++c) {
        double total = 0;
        for (int64_t i = 0; i < n; ++i) total += x[0].at(r * n + i) * x[1].at(i * m + c);
        y.set(r * m + c, total * x[2].item());
      }
    return {y};
  };
  op.gradient = [](const CustomCotangents& given) -> std::vector<Tensor> {
    const Tensor &x = given.operands[0], &w = given.operands[1], &s = given.operands[2];
    const Tensor& c = given.cotangents[0];
    return {einsum("bj,ij->bi", c, w) * s, einsum("bi,bj->ij", x, c) * s,
            sum(c * einsum("bi,ij->bj", x, w))};
  };
  return op;
}

// {largest, its place as a float} of each row: two results, rows whole.
CustomOp best() {
  CustomOp op;
  op.name = "test.best";
  op.infer = [](const Shapes& x, const std::string&) -> Shapes {
    const Shape row(x[0].dtype, {x[0].dims[0]});
    return {row, row};
  };
  op.loops = [](const Shapes&, const std::string&) {
    return CustomLoops{.nest = "bi->b,b", .whole = "i"};
  };
  op.reference = [](const Arrays& x, const std::string&) -> Arrays {
    const int64_t rows = x[0].dims()[0], n = x[0].dims()[1];
    Array value(Shape(x[0].dtype(), {rows})), place = value.clone();
    for (int64_t r = 0; r < rows; ++r) {
      int64_t at = 0;
      for (int64_t i = 1; i < n; ++i)
        if (x[0].at(r * n + i) > x[0].at(r * n + at)) at = i;
      value.set(r, x[0].at(r * n + at));
      place.set(r, double(at));
    }
    return {value, place};
  };
  op.gradient = [](const CustomCotangents& given) -> std::vector<Tensor> {
    const Tensor& x = given.operands[0];
    const Tensor hit = equal(x, expand_dims(given.results[0], 1));
    return {where(hit, x * 0. + expand_dims(given.cotangents[0], 1), x * 0.)};
  };
  return op;
}

// Sum of exp(x) over i: filling up with zeros adds ones.
CustomOp sum_of_powers(const std::string& name, const std::string& whole) {
  CustomOp op;
  op.name = name;
  op.infer = [](const Shapes& x, const std::string&) -> Shapes {
    return {Shape(x[0].dtype, {x[0].dims[0]})};
  };
  op.loops = [whole](const Shapes&, const std::string&) { return CustomLoops{"bi->b", whole}; };
  op.reference = [](const Arrays& x, const std::string&) -> Arrays {
    const int64_t rows = x[0].dims()[0], n = x[0].dims()[1];
    Array y(Shape(x[0].dtype(), {rows}));
    for (int64_t e = 0; e < rows * n; ++e) y.set(e / n, y.at(e / n) + std::exp(x[0].at(e)));
    return {y};
  };
  return op;
}

// Largest of each row: parts are joined by max.
CustomOp largest() {
  CustomOp op = sum_of_powers("test.largest", "");
  op.loops = [](const Shapes&, const std::string&) {
    return CustomLoops{.nest = "bi->b", .combiner = Combiner::max};
  };
  op.reference = [](const Arrays& x, const std::string&) -> Arrays {
    const int64_t rows = x[0].dims()[0], n = x[0].dims()[1];
    Array y = Array::full(Shape(x[0].dtype(), {rows}), -INFINITY);
    for (int64_t e = 0; e < rows * n; ++e) y.set(e / n, std::max(y.at(e / n), x[0].at(e)));
    return {y};
  };
  return op;
}

// Rows added up from the first to each: no loops given, everything is whole.
CustomOp running_sum() {
  CustomOp op;
  op.name = "test.running_sum";
  op.infer = as_first;
  op.reference = [](const Arrays& x, const std::string&) -> Arrays {
    Array y(x[0].shape());
    double total = 0;
    for (int64_t e = 0; e < y.size(); ++e) y.set(e, total += x[0].at(e));
    return {y};
  };
  return op;
}

void register_all() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (CustomOp op :
         {scaled_relu(), product(), best(), largest(), running_sum(),
          sum_of_powers("test.sum_of_powers", "i"), sum_of_powers("test.wrong_sum", "")})
      register_op(std::move(op));
    CustomOp wrong = scaled_relu();
    wrong.name = "test.wrong_gradient";
    wrong.gradient = [](const CustomCotangents& given) -> std::vector<Tensor> {
      return {given.cotangents[0], given.operands[1] * 0.};
    };
    register_op(wrong);
    wrong = scaled_relu();
    wrong.name = "test.wrong_kernel";
    wrong.kernel = [](const CustomShapes&) {
      PreparedKernel kernel;
      kernel.run = [](const KernelArgs&) {};
      return kernel;
    };
    register_op(wrong);
    CustomOp loops = running_sum();
    loops.name = "test.wrong_loops";
    loops.loops = [](const Shapes&, const std::string&) { return CustomLoops{"ab->ab"}; };
    register_op(loops);
  });
}

Array wide(Dims dims, unsigned seed) { return random_array({DType::f64, std::move(dims)}, seed); }

}  // namespace

TEST_CASE("ops of the user's own are what they say, split in every way", "[api]") {
  register_all();
  const CustomOpCheck exact{.tolerance = {1e-12, 1e-12}};
  CustomOpCheck leaky = exact;
  leaky.config = "0.25";
  const auto holds = [](const Expectation& expectation) {
    INFO(expectation.message);
    CHECK(expectation);
  };
  holds(expect_custom_op("test.scaled_relu", {wide({3, 5}, 1), wide({5}, 2)}, exact));
  holds(expect_custom_op("test.scaled_relu", {wide({3, 5}, 1), wide({5}, 2)}, leaky));
  CustomOpCheck some = exact;
  some.shardings = 40;
  holds(expect_custom_op("test.product", {wide({3, 5}, 3), wide({5, 4}, 4), wide({}, 5)}, some));
  holds(expect_custom_op("test.best", {wide({3, 5}, 6)}, exact));
  holds(expect_custom_op("test.largest", {wide({3, 5}, 7)}, exact));
  holds(expect_custom_op("test.sum_of_powers", {wide({3, 5}, 8)}, exact));
  holds(expect_custom_op("test.running_sum", {wide({3, 5}, 9)}, exact));
  const Array x = random_array({DType::f32, {3, 5}}, 10);
  holds(expect_custom_op("test.largest", {x}));
}

TEST_CASE("what is wrong about an op of the user's own is found", "[api]") {
  register_all();
  const auto message = [](const std::string& name, const Arrays& operands) {
    const Expectation found = expect_custom_op(name, operands);
    CHECK_FALSE(found);
    return found.message;
  };
  const Array x = wide({3, 5}, 1), scale = wide({5}, 2);
  CHECK(message("test.wrong_gradient", {x, scale}).find("central differences") !=
        std::string::npos);
  CHECK(message("test.wrong_kernel", {x, scale}).find("its kernel") != std::string::npos);
  CHECK(message("test.wrong_loops", {x}).find("with the axes on dims") != std::string::npos);
  CHECK(message("test.wrong_sum", {x}).find("with the axes on dims") != std::string::npos);
}

TEST_CASE("an op of the user's own is split by its loops, and summed where they are", "[api]") {
  register_all();
  const Mesh mesh{{"x", 2}};
  const auto fn = [&](Tensor x, Tensor w, Tensor s) {
    return custom_call("test.product", {mesh_split(x, mesh, {_, "x"}), w, s})[0];
  };
  const auto program = compile(fn, {.mesh = mesh}, wide({4, 6}, 1), wide({6, 2}, 2), wide({}, 3));
  CHECK(expect_collectives(program, {{"all-reduce", "x", 1}}));
  const std::string text = program.text();
  CHECK(text.find("f64[4,3]") != std::string::npos);
  CHECK(text.find("custom_call_target=\"test.product\"") != std::string::npos);
}

TEST_CASE("an op of the user's own in loops, branches and transforms", "[api]") {
  register_all();
  const Array x = wide({3, 5}, 11);
  const auto op = [](Tensor t) {
    return custom_call("test.scaled_relu", {t + 0.1, sum(t * t, {.axes = 0})},
                       {.config = "0.5"})[0];
  };
  CHECK(derivatives_are_right([op](Tensor t) { return sum(square(op(t))); }, x));
  CHECK(gradient_is_right(
      [op](Tensor t) {
        return sum(square(fori_loop(
            0, 2, [op](Tensor, Tensor s) { return op(s); }, t)));
      },
      x));
  CHECK(gradient_is_right(
      [op](Tensor t) {
        return sum(square(cond(
            sum(t) > 100., op, [op](Tensor s) { return op(s * 0.5); }, t)));
      },
      x));
  CHECK(gradient_is_right([op](Tensor t) { return sum(square(checkpoint(op)(sin(t)))); }, x));
  CHECK(gradient_is_right(
      [op](Tensor t) {
        const Tensor batch = stack({t, t * 0.3});
        return sum(square(vmap(op)(batch)));
      },
      x));
}

TEST_CASE("ops of the user's own: errors say what to change", "[api]") {
  register_all();
  const Shape x(DType::f32, {3, 5}), five(DType::f32, {5}), four(DType::f32, {4});
  GSPMD_REQUIRE_ERROR("no op \"test.nothing\" is registered",
                      trace([](Tensor t) { return custom_call("test.nothing", {t})[0]; }, x));
  GSPMD_REQUIRE_ERROR("scaled_relu: x is b,i and the scale i",
                      trace(
                          [](Tensor t, Tensor s) {
                            return custom_call("test.scaled_relu", {t, s})[0];
                          },
                          x, four));
  GSPMD_REQUIRE_ERROR(
      "\"test.sum_of_powers\" has no gradient; give CustomOp::gradient",
      trace(grad([](Tensor t) { return sum(custom_call("test.sum_of_powers", {t})[0]); }), x));
  GSPMD_REQUIRE_ERROR("there is an op \"test.product\" already", register_op(product()));
  CustomOp op = running_sum();
  op.name = "TopK";
  GSPMD_REQUIRE_ERROR("\"TopK\" is a custom-call of the library", register_op(op));
  op.name = "";
  GSPMD_REQUIRE_ERROR("the op has no name", register_op(op));
  op.name = "test.empty";
  op.reference = {};
  GSPMD_REQUIRE_ERROR("\"test.empty\" has no reference", register_op(op));
}

TEST_CASE("loops of an op of the user's own that do not fit its shapes are errors", "[api]") {
  register_all();
  const std::pair<const char*, const char*> cases[] = {
      {"bi", "write operands -> results"},
      {"bi,i->bi", "it lists 2 operands of 1"},
      {"b->b", "operand 0 has 1 letters for 2 dims"},
      {"bb->bb", "operand 0 has a letter twice"},
      {"b1->b1", "'1' is no letter"},
      {"bi->ib", "letter i is of sizes 5 and 3"},
      {"bi->bi;z", "letter z of `whole` is in no dim"}};
  int number = 0;
  for (const auto& [loops, fact] : cases) {
    const std::string text = loops;
    const size_t whole = text.find(';');
    CustomOp op = running_sum();
    op.name = fmt::format("test.misfit{}", number++);
    op.loops = [text, whole](const Shapes&, const std::string&) {
      return whole == text.npos ? CustomLoops{text}
                                : CustomLoops{text.substr(0, whole), text.substr(whole + 1)};
    };
    register_op(op);
    const std::string name = op.name;
    INFO(loops);
    GSPMD_REQUIRE_ERROR(fact, trace([name](Tensor t) { return custom_call(name, {t})[0]; },
                                    Shape(DType::f32, {3, 5})));
  }
}

}  // namespace gspmd::test
