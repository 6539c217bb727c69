#include "gspmd/api/schedules.h"

#include <cmath>
#include <numbers>

#include "api/emit.h"

namespace gspmd {

using namespace detail;

namespace {

void check_value(const char* op, Site site, const char* what, double value) {
  if (!std::isfinite(value))
    user_error(site, "{}: {} {} is wrong; give a finite number", op, what, value);
}
void check_steps(const char* op, Site site, const char* what, int64_t steps, int64_t least = 1) {
  if (steps < least)
    user_error(site, "{}: {} {} is wrong; give {} or more", op, what, steps, least);
}

// The step as it was given. UserError: it is no integer scalar.
Node* step_node(const Tensor& step) {
  Node* node = node_of(step);
  need_integer(node, "step counts");
  if (node->rank() != 0)
    call_error("the step {} has dims; give a scalar, as Adam's step", describe(node));
  return node;
}

// A schedule of the step as f32.
template <class F>
Schedule schedule(const char* op, Site site, F value) {
  return [op, site, value](const Tensor& step) {
    return call(op, site,
                [&] { return tensor_of(value(hlo::convert(step_node(step), DType::f32))); });
  };
}

// min(max(x, 0), 1)
Node* between_0_and_1(Node* x) {
  return hlo::binary(Opcode::minimum, hlo::binary(Opcode::maximum, x, splat_like(x, 0)),
                     splat_like(x, 1));
}

}  // namespace

Schedule constant_schedule(double value, Site site) {
  check_value("constant_schedule", site, "value", value);
  return schedule("constant_schedule", site, [value](Node* t) { return splat_like(t, value); });
}

Schedule linear_schedule(const LinearScheduleOptions& options, Site site) {
  const char* op = "linear_schedule";
  check_value(op, site, "init_value", options.init_value);
  check_value(op, site, "end_value", options.end_value);
  check_steps(op, site, "transition_steps", options.transition_steps);
  check_steps(op, site, "transition_begin", options.transition_begin, 0);
  return schedule(op, site, [options](Node* t) {
    Node* const since = add(t, -static_cast<double>(options.transition_begin));
    Node* const part =
        between_0_and_1(divide(since, static_cast<double>(options.transition_steps)));
    return add(multiply(part, options.end_value - options.init_value), options.init_value);
  });
}

Schedule cosine_decay_schedule(const CosineDecayOptions& options, Site site) {
  const char* op = "cosine_decay_schedule";
  check_value(op, site, "init_value", options.init_value);
  check_value(op, site, "alpha", options.alpha);
  check_steps(op, site, "decay_steps", options.decay_steps);
  return schedule(op, site, [options](Node* t) {
    Node* const part = between_0_and_1(divide(t, static_cast<double>(options.decay_steps)));
    Node* const wave = add(hlo::unary(Opcode::cosine, multiply(part, std::numbers::pi)), 1);
    const double falls = options.init_value * (1 - options.alpha);
    return add(multiply(wave, falls / 2), options.init_value * options.alpha);
  });
}

Schedule inverse_sqrt_schedule(const InverseSqrtOptions& options, Site site) {
  const char* op = "inverse_sqrt_schedule";
  check_value(op, site, "peak_value", options.peak_value);
  check_steps(op, site, "warmup_steps", options.warmup_steps);
  return schedule(op, site, [options](Node* t) {
    const auto warmup = static_cast<double>(options.warmup_steps);
    Node* const rise = divide(t, warmup);
    // At step 0 the line is less than any root.
    Node* const root = hlo::unary(
        Opcode::rsqrt, divide(hlo::binary(Opcode::maximum, t, splat_like(t, 1)), warmup));
    return multiply(hlo::binary(Opcode::minimum, rise, root), options.peak_value);
  });
}

Schedule warmup_schedule(Schedule after, const WarmupOptions& options, Site site) {
  const char* op = "warmup_schedule";
  check_value(op, site, "init_value", options.init_value);
  check_steps(op, site, "warmup_steps", options.warmup_steps);
  if (!after) user_error(site, "{}: there is no schedule to follow; give one", op);
  return [=](const Tensor& step) {
    return call(op, site, [&] {
      Node* const t = step_node(step);
      const auto warmup = static_cast<double>(options.warmup_steps);
      // Before its beginning the following schedule stands at its first value.
      Node* const since = hlo::binary(Opcode::maximum, add(t, -warmup), splat_like(t, 0));
      Node* const value = node_of(after(tensor_of(since)));
      Node* const part = between_0_and_1(divide(hlo::convert(t, DType::f32), warmup));
      Node* const start = splat_like(value, options.init_value);
      return tensor_of(add(start, multiply(subtract(value, start), part)));
    });
  };
}

Schedule join_schedules(std::vector<Schedule> schedules, std::vector<int64_t> boundaries,
                        Site site) {
  const char* op = "join_schedules";
  if (schedules.size() != boundaries.size() + 1)
    user_error(site, "{}: {} schedules and {} boundaries; give one schedule more", op,
               schedules.size(), boundaries.size());
  for (size_t i = 0; i < schedules.size(); ++i)
    if (!schedules[i]) user_error(site, "{}: schedule {} is empty; give a schedule", op, i);
  for (size_t i = 0; i < boundaries.size(); ++i)
    if (boundaries[i] < (i == 0 ? 0 : boundaries[i - 1]))
      user_error(site, "{}: boundary {} of {} is before the one before; give steps that rise", op,
                 i, dims_text(boundaries));
  return [=](const Tensor& step) {
    return call(op, site, [&] {
      Node* const t = step_node(step);
      Node* value = node_of(schedules[0](step));
      for (size_t i = 0; i < boundaries.size(); ++i) {
        Node* const since = add(t, -static_cast<double>(boundaries[i]));
        Node* const next = node_of(schedules[i + 1](tensor_of(since)));
        Node* const begun = hlo::compare(since, splat_like(since, 0), Direction::ge);
        value = hlo::select(begun, next, value);
      }
      return tensor_of(value);
    });
  };
}

Schedule warmup_cosine_decay_schedule(const WarmupCosineOptions& options, Site site) {
  const char* op = "warmup_cosine_decay_schedule";
  check_value(op, site, "peak_value", options.peak_value);
  check_value(op, site, "end_value", options.end_value);
  check_steps(op, site, "warmup_steps", options.warmup_steps);
  if (options.decay_steps <= options.warmup_steps)
    user_error(site,
               "{}: decay_steps {} count the warm-up of {} as well; give more than the warm-up", op,
               options.decay_steps, options.warmup_steps);
  // Not by the part of the peak that is left: the peak may be 0.
  const int64_t steps = options.decay_steps - options.warmup_steps;
  const double end = options.end_value, falls = options.peak_value - end;
  const Schedule unit = cosine_decay_schedule({.init_value = falls, .decay_steps = steps}, site);
  const Schedule down = [=](const Tensor& step) {
    return tensor_of(add(node_of(unit(step)), end));
  };
  return warmup_schedule(
      down, {.init_value = options.init_value, .warmup_steps = options.warmup_steps}, site);
}

}  // namespace gspmd
