// One mistake per check: the message names the optimizer, the leaves, the numbers and this line.
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace errors_training_test {
namespace {

const Shape kF{DType::f32, {2, 3}}, kOther{DType::f32, {3}};

// Whether an update with these options is refused with this text.
template <template <class> class Optimizer, class Options>
void refused(const char* text, const Options& options) {
  GSPMD_REQUIRE_ERROR(text, trace(
                                [&](Tensor x) {
                                  const auto state = Optimizer<Tensor>::zeros_like(x);
                                  return state.update(x, x, options).first;
                                },
                                kF));
}

}  // namespace

TEST_CASE("optimizers with rates of each leaf's own refuse wrong options", "[api][errors]") {
  refused<Lamb>("lamb: beta1 1 is wrong; give 0 or more and less than 1", LambOptions{.beta1 = 1});
  refused<Lamb>("lamb: beta2 -1 is wrong", LambOptions{.beta2 = -1});
  refused<Lamb>("lamb: eps nan is wrong", LambOptions{.eps = NAN});
  refused<Lamb>("lamb: the learning rate inf is not finite", LambOptions{.lr = INFINITY});
  refused<Lars>("lars: trust coefficient -1 is wrong; give 0 or more",
                LarsOptions{.trust_coefficient = -1});
  refused<Lars>("lars: momentum -1 is wrong", LarsOptions{.momentum = -1});
  refused<Lars>("lars: weight decay -1 is wrong", LarsOptions{.weight_decay = -1});
  refused<Adafactor>("adafactor: clip threshold 0 is wrong; give a number above 0",
                     AdafactorOptions{.clip_threshold = 0});
  refused<Adafactor>("adafactor: decay rate -1 is wrong", AdafactorOptions{.decay_rate = -1});
  refused<Adafactor>("adafactor: the least scale inf is wrong",
                     AdafactorOptions{.min_scale = INFINITY});
}

TEST_CASE("RmsProp and Lion refuse wrong options", "[api][errors]") {
  refused<RmsProp>("rmsprop: decay 1 is wrong; give 0 or more and less than 1",
                   RmsPropOptions{.decay = 1});
  refused<RmsProp>("rmsprop: eps -1 is wrong", RmsPropOptions{.eps = -1});
  refused<RmsProp>("rmsprop: momentum inf is wrong", RmsPropOptions{.momentum = INFINITY});
  refused<Lion>("lion: beta1 2 is wrong", LionOptions{.beta1 = 2});
  refused<Lion>("lion: beta2 1 is wrong", LionOptions{.beta2 = 1});
  refused<Lion>("lion: weight decay -1 is wrong", LionOptions{.weight_decay = -1});
}

TEST_CASE("optimizers refuse state and gradients of other leaves", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("rmsprop: the mean of squares arg1 f32[3] differs from its parameter arg0",
                      trace(
                          [](Tensor x, Tensor o) {
                            return RmsProp<Tensor>{o, x}.update(x, x).first;
                          },
                          kF, kOther));
  GSPMD_REQUIRE_ERROR(
      "lion: the gradient arg1 f32[3] differs from its parameter arg0 f32[2,3]",
      trace([](Tensor x, Tensor o) { return Lion<Tensor>{x}.update(x, o).first; }, kF, kOther));
  const auto zero = [] { return zeros({DType::s32, {}}); };
  GSPMD_REQUIRE_ERROR("is not that of the parameter arg0 f32[2,3]; make it by zeros_like(params)",
                      trace(
                          [&](Tensor x, Tensor o) {
                            return Adafactor<Tensor>{o, o, o, zero()}.update(x, x).first;
                          },
                          kF, kOther));
  using List = std::vector<Tensor>;
  GSPMD_REQUIRE_ERROR("lars: where the parameters have \"1\", the velocities have no more leaves",
                      trace(
                          [](Tensor x) {
                            return Lars<List>{{x}}.update({x, x}, {x, x}).first;
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("lamb: step counts must be integers",
                      trace(
                          [](Tensor x) {
                            return Lamb<Tensor>{x, x, x}.update(x, x).first;
                          },
                          kF));
  GSPMD_REQUIRE_ERROR(
      "moving average: where the parameters have \"1\", the averages have no more leaves",
      trace(
          [&](Tensor x) {
            return ExponentialMovingAverage<List>{{x}, zero()}.update({x, x}).average;
          },
          kF));
}

TEST_CASE("optimizers take empty trees", "[api]") {
  const auto f = [](Tensor x) {
    const std::vector<Tensor> none;
    return std::pair{x, Lamb<std::vector<Tensor>>::zeros_like(none).update(none, none).second.step};
  };
  CHECK(reference_results(f, Array(kF))[1].item() == 1);
}

}  // namespace errors_training_test
