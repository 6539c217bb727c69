// Derivatives of convolutions in all forms; those of the other builders: tests/derivatives.
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

// The kernel's gradient has the input as its kernel where the input is spread.
TEST_CASE("kernels of convolutions of spread inputs have their derivatives", "[api][grad]") {
  const Array x = random_array({DType::f64, {2, 3, 2}}, 7);
  const Array kernel = random_array({DType::f64, {3, 2, 1}}, 8);
  const char* layout = "NxC,xIO->NxC";
  const std::vector<ConvOptions> forms = {
      {.input_dilation = {2}},
      {.padding = {{2, -1}}, .input_dilation = {3}},
      {.strides = {2}, .padding = Padding::same, .input_dilation = {3}},
      {.padding = {{1, 3}}, .dilation = {2}, .input_dilation = {2}},
      {.strides = {2}, .padding = {{1, 2}}, .input_dilation = {2}},
  };
  for (size_t i = 0; i < forms.size(); ++i) {
    INFO("form " << i);
    const auto of_kernel = [&](Tensor k) { return sum(square(conv(x, k, layout, forms[i]))); };
    const auto of_input = [&](Tensor t) { return sum(square(conv(t, kernel, layout, forms[i]))); };
    CHECK(derivatives_are_right(of_kernel, kernel).message == "");
    CHECK(derivatives_are_right(of_input, x).message == "");
  }
  for (const bool flipped : {false, true}) {
    const auto up = [&](Tensor k) {
      return sum(square(
          conv_transpose(x, k, "NxC,xIO->NxC", {.strides = {2}, .transpose_kernel = flipped})));
    };
    CHECK(derivatives_are_right(up, flipped ? random_array({DType::f64, {3, 1, 2}}, 9) : kernel)
              .message == "");
  }
}

TEST_CASE("the kernel's gradient of images that grow, cut by rows, needs halos only",
          "[api][grad]") {
  const auto gradient = [](const Mesh& mesh) {
    return grad<1>([mesh](Tensor x, Tensor k) {
      x = mesh_split(x, mesh, {_, "rows", _, _});
      return sum(square(conv_transpose(x, k, "NHWC,HWIO->NHWC", {.strides = {2, 2}})));
    });
  };
  const Array x = random_array({DType::f64, {2, 40, 30, 2}}, 1);
  const Array kernel = random_array({DType::f64, {4, 3, 2, 3}}, 2);
  const Mesh four{{"rows", 4}};
  CHECK(expect_equal_on_meshes(gradient, {four, Mesh{{"rows", 3}}, Mesh{{"rows", 1}}},
                               {1e-11, 1e-11}, x, kernel)
            .message == "");
  const auto step = compile(gradient(four), {.mesh = four, .prepare = false}, x, kernel);
  for (const CollectiveStats& c : step.stats().collectives) {
    INFO(c.kind << " of " << c.op);
    CHECK((c.kind == "collective-permute" || c.kind == "all-reduce"));
  }
}
