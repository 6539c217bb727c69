// An op that gspmd does not have, made and checked from outside: rows scaled by how fast they
// decay, y[b,i] = x[b,i] * exp(-rate[b]).
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"

using namespace gspmd;

namespace {

std::vector<Shape> shapes(const std::vector<Shape>& operands, const std::string&) {
  if (operands.size() != 2 || operands[0].rank() != 2 ||
      operands[1].dims != Dims{operands[0].dims[0]})
    user_error("decay: give x[b,i] and rate[b]");
  return {operands[0]};
}

std::vector<Array> reference(const std::vector<Array>& operands, const std::string& config) {
  const double speed = std::stod(config);
  const Array &x = operands[0], &rate = operands[1];
  Array y(x.shape());
  const int64_t columns = x.dims()[1];
  for (int64_t e = 0; e < y.size(); ++e)
    y.set(e, x.at(e) * std::exp(-speed * rate.at(e / columns)));
  return {y};
}

// One part for each quarter of the rows.
PreparedKernel kernel(const CustomShapes& shapes) {
  PreparedKernel kernel;
  if (shapes.operands[0].dtype != DType::f64) return kernel;  // the reference runs
  const int64_t rows = shapes.operands[0].dims[0], columns = shapes.operands[0].dims[1];
  const double speed = std::stod(shapes.config);
  kernel.parts = 4;
  kernel.cost = 20.0 * static_cast<double>(rows) + static_cast<double>(rows * columns);
  kernel.run = [rows, columns, speed](const KernelArgs& args) {
    const auto* x = reinterpret_cast<const double*>(args.operands[0]);
    const auto* rate = reinterpret_cast<const double*>(args.operands[1]);
    auto* y = reinterpret_cast<double*>(args.results[0]);
    for (int64_t b = args.part * rows / 4; b < (args.part + 1) * rows / 4; ++b) {
      const double factor = std::exp(-speed * rate[b]);
      for (int64_t i = 0; i < columns; ++i) y[b * columns + i] = x[b * columns + i] * factor;
    }
  };
  return kernel;
}

std::vector<Tensor> gradient(const CustomCotangents& given) {
  const double speed = std::stod(given.config);
  const Tensor &rate = given.operands[1], &y = given.results[0], &c = given.cotangents[0];
  return {c * expand_dims(exp(rate * -speed), 1), sum(c * y, {.axes = 1}) * -speed};
}

int fail(const char* what, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", what, why.c_str());
  return 1;
}

}  // namespace

// Exit code 0: the op is what it says, alone, split, printed, read and differentiated.
int main() {
  register_op({.name = "consumer.decay",
               .infer = shapes,
               .loops = [](const auto&, const auto&) { return CustomLoops{"bi,b->bi"}; },
               .reference = reference,
               .kernel = kernel,
               .gradient = gradient,
               .flops = [](const CustomShapes& s) { return s.results[0].elements_count(); }});
  const Array x = random_normal_array({DType::f64, {5, 7}}, 1);
  const Array rate = random_normal_array({DType::f64, {5}}, 2);
  const Expectation whole =
      expect_custom_op("consumer.decay", {x, rate}, {.config = "0.5", .tolerance = {1e-12, 1e-12}});
  if (!whole) return fail("conformance", whole.message);

  // Rows over one axis and columns over the other: nothing is sent.
  const Mesh mesh{{"rows", 2}, {"columns", 2}};
  const auto step = [&](Tensor t, Tensor r) {
    return custom_call("consumer.decay", {mesh_split(t, mesh, {"rows", "columns"}), r},
                       {.config = "0.5"})[0];
  };
  const auto program = compile(step, {.mesh = mesh}, x, rate);
  const Expectation silent = expect_collectives(program, {});
  if (!silent) return fail("collectives", silent.message);
  if (program.text().find("custom_call_target=\"consumer.decay\"") == std::string::npos)
    return fail("text", program.text());
  const Expectation same =
      expect_close({program(x, rate)}, reference({x, rate}, "0.5"), {1e-12, 1e-12});
  return same ? 0 : fail("values", same.message);
}
