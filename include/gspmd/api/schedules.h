#pragma once

// Learning rates that change over time: functions of the number of updates done.

#include <functional>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

// Of an integer scalar, the updates done so far (Adam::step), the rate of the next one, f32. Called
// inside of a traced function: adam.update(params, grads, {.lr = schedule(adam.step)}).
using Schedule = std::function<Tensor(Tensor step)>;

// The same value at all times.
GSPMD_API Schedule constant_schedule(double value, Site site = Site::here());

// How linear_schedule() moves.
struct LinearScheduleOptions {
  double init_value = 0;         // before and at transition_begin
  double end_value = 1;          // from transition_begin + transition_steps on
  int64_t transition_steps = 1;  // 1 or more
  int64_t transition_begin = 0;  // 0 or more
};
// Along a line from one value to another. As optax.linear_schedule.
GSPMD_API Schedule linear_schedule(const LinearScheduleOptions& options, Site site = Site::here());

// How cosine_decay_schedule() falls.
struct CosineDecayOptions {
  double init_value = 1;    // at step 0
  int64_t decay_steps = 1;  // 1 or more; from then on the value is alpha * init_value
  double alpha = 0;         // part of the initial value that is left at the end
};
// init_value * ((1 - alpha) * (1 + cos(pi * step / decay_steps)) / 2 + alpha): Loshchilov and
// Hutter 2016. As optax.cosine_decay_schedule.
GSPMD_API Schedule cosine_decay_schedule(const CosineDecayOptions& options,
                                         Site site = Site::here());

// How inverse_sqrt_schedule() rises and falls.
struct InverseSqrtOptions {
  double peak_value = 1;     // at step warmup_steps
  int64_t warmup_steps = 1;  // 1 or more
};
// peak_value * min(step / warmup_steps, sqrt(warmup_steps / step)): Vaswani et al. 2017.
GSPMD_API Schedule inverse_sqrt_schedule(const InverseSqrtOptions& options,
                                         Site site = Site::here());

// How warmup_schedule() begins.
struct WarmupOptions {
  double init_value = 0;     // at step 0
  int64_t warmup_steps = 1;  // 1 or more
};
// Along a line from init_value to the first value of `after`, which then runs from its step 0.
GSPMD_API Schedule warmup_schedule(Schedule after, const WarmupOptions& options,
                                   Site site = Site::here());

// One schedule after the other: number i+1 takes over at step boundaries[i], which is its step 0.
// As optax.join_schedules. UserError: not one schedule more than boundaries, or boundaries that do
// not rise.
GSPMD_API Schedule join_schedules(std::vector<Schedule> schedules, std::vector<int64_t> boundaries,
                                  Site site = Site::here());

// How warmup_cosine_decay_schedule() runs.
struct WarmupCosineOptions {
  double init_value = 0;     // at step 0
  double peak_value = 1;     // at step warmup_steps
  int64_t warmup_steps = 1;  // 1 or more
  int64_t decay_steps = 2;   // when end_value is reached, counted from 0; more than warmup_steps
  double end_value = 0;      // from decay_steps on
};
// A line up, then half a cosine down. As optax.warmup_cosine_decay_schedule.
GSPMD_API Schedule warmup_cosine_decay_schedule(const WarmupCosineOptions& options,
                                                Site site = Site::here());

}  // namespace gspmd
