#include "gspmd/gspmd.h"

using namespace gspmd;

// Exit code 0: a product split over two devices is the product.
int main() {
  const Mesh mesh{{"x", 2}};
  const auto twice = [&](Tensor a) { return mesh_split(a, mesh, {"x"}) * 2; };
  const Array three = Array::full(Shape(DType::f32, {3}), 3);
  const Array six = compile(twice, {.mesh = mesh, .threads = 1}, three)(three);
  return bitwise_equal(six, Array::full(Shape(DType::f32, {3}), 6)) ? 0 : 1;
}
