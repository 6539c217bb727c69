#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gspmd/gspmd.h"

namespace gspmd::models {

// Whose rules tokens get their two experts by.
enum class GatingForm : uint8_t {
  published,  // algorithm 1 of GShard, arXiv:2006.16668
  released,   // Top2GatingOnLogits of Lingvo
};
// What becomes of a token's second choice.
enum class SecondExpert : uint8_t {
  all,       // kept where there is room
  random,    // kept with probability min(1, gate / second_threshold)
  sampling,  // drawn by its probability among the others, then kept where there is room
};

// g groups of s tokens choose among e experts, each of which takes c tokens of a group.
struct GatingOptions {
  int64_t experts = 8;
  GatingForm form = GatingForm::published;
  SecondExpert second = SecondExpert::random;
  double second_threshold = 0.5;
  double capacity_factor = 2;  // an expert has room for this times s / e tokens of a group
  int64_t min_capacity = 4;    // released form only
};

// UserError: fewer than 2 experts, factors or a threshold that are not positive, a capacity below
// 1.
void check(const GatingOptions& options);

// Places of an expert for a group of `tokens`. Published: capacity_factor * tokens / experts,
// rounded up. Released: rounded down, min_capacity at least, then up to a multiple of 4.
int64_t expert_capacity(const GatingOptions& options, int64_t tokens);

// One choice of every token, as g,s.
template <class T>
struct Choice {
  T expert;  // s32
  T place;   // s32, of the expert's; at least the capacity where it is full
  T gate;    // what the expert's result is weighted by; 0 where the choice is not kept
  T kept;    // pred
  GSPMD_FIELDS(expert, place, gate, kept)
};

// What every place holds, as g,e*c.
template <class T>
struct Places {
  T token;  // s32; s where nobody came
  T gate;   // its weight; 0 where nobody came
  GSPMD_FIELDS(token, gate)
};

// What gating decides.
struct Routes {
  int64_t experts = 0;   // e
  int64_t capacity = 0;  // c; 0: any number
  // One of the two: tokens choose, or experts do.
  std::vector<Choice<Tensor>> choices;
  std::optional<Places<Tensor>> places;

  Tensor aux_loss;        // scalar, the mean over groups; what balances the experts' loads
  Tensor assigned, kept;  // e, f32: tokens that chose an expert, and those it has taken
  Tensor unserved;        // scalar, f32: tokens that no expert has taken
};

// Random numbers that a policy compares or adds, from a seed: random g,s uniform, sampling g,s,e
// Gumbel; none for all.
std::optional<Tensor> gating_noise(const GatingOptions& options, const Tensor& seed,
                                   const Dims& logits);

// The two experts of every token by its logits g,s,e. `noise`: as gating_noise(). Tokens where
// `present` g,s (f32, 0 or 1) is 0 are padding: they take no places and count nowhere. The aux loss
// is, of the share of first choices f and the mean gate m of an expert: published mean_e(f m),
// released e^2 mean_e(f m), which is 1 where all experts have the same.
// UserError: logits of another rank or number of experts, noise or presence of other dims, noise
// that the policy needs and is not there.
Routes top2_gating(const Tensor& logits, const GatingOptions& options,
                   const std::optional<Tensor>& noise, const std::optional<Tensor>& present = {});

// Top-2 gating without capacity: every choice is kept, and places count nothing.
Routes dropless_gating(const Tensor& logits, const GatingOptions& options,
                       const std::optional<Tensor>& present = {});

// Every expert chooses the c tokens of a group that like it most (arXiv:2202.09368): loads are
// equal, and there is no aux loss. What a token gets depends on tokens behind it.
Routes expert_choice_gating(const Tensor& logits, const GatingOptions& options,
                            const std::optional<Tensor>& present = {});

// The choices of tokens as places of `experts` experts: scatters within groups.
Places<Tensor> places_of(const std::vector<Choice<Tensor>>& choices, int64_t experts,
                         int64_t capacity);

// The routes as weights g,s,e,c: what token s gets of place c of expert e; a token is sent where it
// is not 0.
Tensor combine_weights(const Routes& routes, int64_t tokens);

// The mean of logsumexp(logits)^2 over tokens, which keeps logits small (arXiv:2202.08906).
Tensor router_z_loss(const Tensor& logits);

}  // namespace gspmd::models
