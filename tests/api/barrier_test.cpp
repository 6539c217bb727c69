#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

TEST_CASE("a barrier holds the leaves of a tree together and keeps their values", "[api]") {
  const Array a = random_array({DType::f64, {3}}, 1), b = random_array({DType::f64, {2}}, 2);
  const auto held = [](Tensor x, Tensor y) {
    const auto [p, q] = optimization_barrier(std::pair{x, y});
    return std::vector<Tensor>{p, q};
  };
  CHECK(expect_close(reference_results(held, a, b), {a, b}, {0, 0}).message == "");
  const std::string text = trace(held, a, b).text();
  INFO(text);
  CHECK(text.find("opt-barrier(") != std::string::npos);
  GSPMD_REQUIRE_ERROR("optimization_barrier: leaf \"1\" has no value",
                      trace(
                          [](Tensor x) {
                            return optimization_barrier(std::vector<Tensor>{x, Tensor()});
                          },
                          a));
}
