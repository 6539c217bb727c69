// Every differentiable builder: its derivatives, alone and in what it may be put into.
#include "api/support.h"
#include "derivatives/checks.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

using Check = std::string (*)(const Case&);

// Sanitizer builds take each eighth case, beginning with another one in each check.
void all_are_right(const std::vector<Case>& cases, Check check, [[maybe_unused]] size_t first) {
#ifdef GSPMD_SANITIZED
  constexpr size_t kStep = 8;
#else
  constexpr size_t kStep = 1;
  first = 0;
#endif
  for (size_t i = first; i < cases.size(); i += kStep) {
    INFO(cases[i].name);
    try {
      CHECK(check(cases[i]) == std::string());
    } catch (const Error& error) {
      FAIL_CHECK(error.what());
    }
  }
}

void control_flow_is_right(const std::vector<Case>& cases) {
  all_are_right(cases, wrong_in_scan, 1);
  all_are_right(cases, wrong_in_cond, 2);
}

void transforms_are_right(const std::vector<Case>& cases) {
  all_are_right(cases, wrong_in_checkpoint, 3);
  all_are_right(cases, wrong_in_vmap, 4);
}

}  // namespace

#define DERIVATIVES_OF(family, words)                                                        \
  TEST_CASE("derivatives of " words, "[grad][" #family "]") {                                \
    all_are_right(family##_cases(), wrong_alone, 0);                                         \
  }                                                                                          \
  TEST_CASE("derivatives of " words " in scan and cond", "[grad][" #family "]") {            \
    control_flow_is_right(family##_cases());                                                 \
  }                                                                                          \
  TEST_CASE("derivatives of " words " in checkpoint and vmap", "[grad][" #family "]") {      \
    transforms_are_right(family##_cases());                                                  \
  }                                                                                          \
  TEST_CASE("derivatives of " words " on meshes that cut unevenly", "[grad][" #family "]") { \
    all_are_right(family##_cases(), wrong_on_meshes, 5);                                     \
  }

DERIVATIVES_OF(elementwise, "elementwise functions")
DERIVATIVES_OF(reduction, "reductions and running totals")
DERIVATIVES_OF(indexing, "sorted, chosen and replaced elements")
DERIVATIVES_OF(arranging, "arrangements")
DERIVATIVES_OF(linalg, "products, factors and systems")
DERIVATIVES_OF(fourier, "complex numbers and Fourier transforms")
DERIVATIVES_OF(window, "convolutions and pools")
DERIVATIVES_OF(network, "activations, norms, losses and attention")
DERIVATIVES_OF(layer, "layers, random draws and optimizers")
DERIVATIVES_OF(control, "loops, branches and transforms")
DERIVATIVES_OF(mesh, "annotations, manual regions and collectives")

TEST_CASE("derivatives in scan, cond, checkpoint and vmap on meshes, and in two of them",
          "[.survey]") {
  for (const auto& table : {elementwise_cases(), reduction_cases(), indexing_cases(),
                            arranging_cases(), linalg_cases(), fourier_cases(), window_cases(),
                            network_cases(), layer_cases(), control_cases(), mesh_cases()}) {
    all_are_right(table, wrong_composed_on_meshes, 6);
    all_are_right(table, wrong_composed_twice, 7);
  }
}
