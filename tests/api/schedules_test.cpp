#include <cmath>
#include <numbers>

#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

const std::vector<int32_t> kSteps = {0, 1, 3, 4, 5, 10, 17, 20, 50};

// Whether a schedule follows a formula of the step.
template <class F>
void check_schedule(const Schedule& schedule, F formula) {
  const auto rates = [&](Tensor steps) {
    std::vector<Tensor> all_rates;
    for (int64_t i = 0; i < steps.dim(0); ++i) all_rates.push_back(schedule(steps(i)));
    return stack(all_rates);
  };
  const auto count = static_cast<int64_t>(kSteps.size());
  const Array seen = run(rates, Array::of<int32_t>({count}, kSteps));
  CHECK(seen.dtype() == DType::f32);
  for (int64_t i = 0; i < count; ++i) {
    INFO("step " << kSteps[size_t(i)]);
    CHECK(seen.at(i) == Approx(formula(double(kSteps[size_t(i)]))).epsilon(1e-5).margin(1e-7));
  }
}

}  // namespace

TEST_CASE("schedules follow their formulas", "[api]") {
  check_schedule(constant_schedule(0.3), [](double) { return 0.3; });
  check_schedule(
      linear_schedule(
          {.init_value = 0.5, .end_value = 0.1, .transition_steps = 10, .transition_begin = 3}),
      [](double t) { return 0.5 - 0.4 * std::clamp((t - 3) / 10, 0., 1.); });
  const auto cosine = [](double t, double peak, double steps, double alpha) {
    const double wave = (1 + std::cos(std::numbers::pi * std::min(t / steps, 1.))) / 2;
    return peak * ((1 - alpha) * wave + alpha);
  };
  check_schedule(cosine_decay_schedule({.init_value = 0.2, .decay_steps = 20, .alpha = 0.1}),
                 [&](double t) { return cosine(t, 0.2, 20, 0.1); });
  check_schedule(inverse_sqrt_schedule({.peak_value = 0.7, .warmup_steps = 5}),
                 [](double t) { return 0.7 * (t < 5 ? t / 5 : std::sqrt(5 / t)); });
  const WarmupCosineOptions both{.init_value = 0.01,
                                 .peak_value = 0.5,
                                 .warmup_steps = 4,
                                 .decay_steps = 20,
                                 .end_value = 0.05};
  check_schedule(warmup_cosine_decay_schedule(both), [&](double t) {
    return t < 4 ? 0.01 + 0.49 * t / 4 : cosine(t - 4, 0.5, 16, 0.1);
  });
}

TEST_CASE("schedules follow each other, and warm up", "[api]") {
  const Schedule down = linear_schedule({.init_value = 1, .end_value = 0, .transition_steps = 10});
  check_schedule(warmup_schedule(down, {.init_value = 0.2, .warmup_steps = 5}), [](double t) {
    return t < 5 ? 0.2 + 0.8 * t / 5 : 1 - std::min((t - 5) / 10, 1.);
  });
  check_schedule(join_schedules({constant_schedule(2), down, constant_schedule(-1)}, {4, 17}),
                 [](double t) {
                   if (t < 4) return 2.;
                   return t < 17 ? 1 - std::min((t - 4) / 10, 1.) : -1.;
                 });
}

TEST_CASE("an optimizer takes its rate of a schedule of its own step", "[api]") {
  const Schedule schedule =
      linear_schedule({.init_value = 0.5, .end_value = 0, .transition_steps = 2});
  const auto three_steps = [&](Tensor p, Tensor g) {
    auto adam = Adam<Tensor>::zeros_like(p);
    for (int i = 0; i < 3; ++i)
      std::tie(p, adam) = adam.update(p, g, {.lr = schedule(adam.step), .eps = 0});
    return p;
  };
  const Array p = Array::of<float>({2}, {1, 2}), g = Array::of<float>({2}, {3, -4});
  // Of gradients that stay the same Adam's direction is their sign.
  CHECK(values(run(three_steps, p, g))[0] == Approx(1 - 0.5 - 0.25).epsilon(1e-4));
  CHECK(values(run(three_steps, p, g))[1] == Approx(2 + 0.5 + 0.25).epsilon(1e-4));
}

TEST_CASE("schedules name wrong options and steps", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("constant_schedule: value nan is wrong; give a finite number",
                      constant_schedule(NAN));
  GSPMD_REQUIRE_ERROR("linear_schedule: transition_steps 0 is wrong; give 1 or more",
                      linear_schedule({.transition_steps = 0}));
  GSPMD_REQUIRE_ERROR("linear_schedule: transition_begin -1 is wrong; give 0 or more",
                      linear_schedule({.transition_begin = -1}));
  GSPMD_REQUIRE_ERROR("cosine_decay_schedule: decay_steps -5 is wrong",
                      cosine_decay_schedule({.decay_steps = -5}));
  GSPMD_REQUIRE_ERROR("inverse_sqrt_schedule: warmup_steps 0 is wrong",
                      inverse_sqrt_schedule({.warmup_steps = 0}));
  GSPMD_REQUIRE_ERROR("warmup_schedule: there is no schedule to follow", warmup_schedule({}, {}));
  GSPMD_REQUIRE_ERROR("warmup_cosine_decay_schedule: decay_steps 5 count the warm-up of 5 as well",
                      warmup_cosine_decay_schedule({.warmup_steps = 5, .decay_steps = 5}));
  GSPMD_REQUIRE_ERROR("join_schedules: 1 schedules and 1 boundaries; give one schedule more",
                      join_schedules({constant_schedule(1)}, {5}));
  GSPMD_REQUIRE_ERROR(
      "join_schedules: boundary 1 of [5,2] is before the one before",
      join_schedules({constant_schedule(1), constant_schedule(1), constant_schedule(1)}, {5, 2}));
  GSPMD_REQUIRE_ERROR(
      "cosine_decay_schedule: the step arg0 s32[3] has dims; give a scalar",
      trace([](Tensor t) { return cosine_decay_schedule({})(t); }, Shape(DType::s32, {3})));
  GSPMD_REQUIRE_ERROR(
      "linear_schedule: step counts must be integers, got arg0 f32[]",
      trace([](Tensor t) { return linear_schedule({})(t); }, Shape(DType::f32, {})));
}
