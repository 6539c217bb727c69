#include "models/gating.h"

#include <algorithm>
#include <cmath>

namespace gspmd::models {
namespace {

constexpr double kTiny = 1e-9;  // of the released form's denominators

void check_logits(const Tensor& logits, const GatingOptions& options) {
  check(options);
  if (logits.rank() != 3 || logits.dim(2) != options.experts)
    user_error("gating: the logits are {}; they have to be g,s,e with {} experts e",
               to_string(logits.shape()), options.experts);
}

void check_dims(const char* what, const std::optional<Tensor>& x, const Dims& wanted) {
  if (x && x->dims() != wanted)
    user_error("gating: {} {}; it has to have dims {}", what, to_string(x->shape()),
               to_string(Shape(x->dtype(), wanted)));
}

// Gates need more than 16 bits.
Tensor widened(const Tensor& x) { return dtype_size(x.dtype()) < 4 ? convert(x, DType::f32) : x; }

Tensor counts(const Tensor& x) { return convert(x, DType::f32); }

// Of an expert's tokens that stand before each: g,s,e.
Tensor running_before(const Tensor& mask) { return cumsum(mask, {.axis = 1}) - mask; }

// What a mask g,s,e with one 1 per token picks: g,s.
Tensor picked(const Tensor& x, const Tensor& mask) { return sum(x * mask, {.axes = 2}); }

// Both choices of all tokens before capacity.
struct TwoChoices {
  Tensor gates;                   // g,s,e: probabilities
  Tensor expert1, expert2;        // s32 g,s
  Tensor mask1, mask2;            // g,s,e: 1 at the chosen expert; 0 everywhere of padding
  Tensor gate1, gate2;            // g,s; of sum 1
  std::optional<Tensor> present;  // g,s
};

Tensor masked(const Tensor& mask, const std::optional<Tensor>& present) {
  return present ? mask * expand_dims(convert(*present, mask.dtype()), 2) : mask;
}

TwoChoices two_choices(const Tensor& logits, const GatingOptions& o,
                       const std::optional<Tensor>& noise, const std::optional<Tensor>& present) {
  TwoChoices c;
  c.present = present;
  const DType dtype = logits.dtype();
  c.gates = softmax(logits);
  c.expert1 = argmax(c.gates, {.axis = 2});
  const Tensor first = one_hot(c.expert1, o.experts, dtype);
  const bool sampling = o.second == SecondExpert::sampling;
  const Tensor others = sampling ? logits + convert(*noise, dtype) : c.gates;
  c.expert2 = argmax(where(first > 0, sampling ? -1e30 : -1, others), {.axis = 2});
  const Tensor second = one_hot(c.expert2, o.experts, dtype);
  const Tensor gate1 = picked(c.gates, first), gate2 = picked(c.gates, second);
  const Tensor total = gate1 + gate2 + (o.form == GatingForm::released ? kTiny : 0.0);
  c.gate1 = gate1 / total;
  c.gate2 = gate2 / total;
  c.mask1 = masked(first, present);
  c.mask2 = masked(second, present);
  return c;
}

// The mean over groups and experts of (share of first choices) * (mean gate).
Tensor balance(const TwoChoices& c) {
  const Tensor share = mean(c.mask1, {.axes = 1});                     // g,e
  const Tensor proxy = mean(masked(c.gates, c.present), {.axes = 1});  // g,e
  // A sum times a number, since partial sums of groups then add up over layers before they meet.
  return sum(share * proxy) * (1.0 / double(share.size()));
}

Choice<Tensor> choice_of(const Tensor& expert, const Tensor& place, const Tensor& gate,
                         const Tensor& kept) {
  return {expert, convert(place, DType::s32), where(kept, gate, 0.0), kept};
}

// How many tokens each expert has: e.
Tensor tokens_of_experts(const Tensor& mask) { return sum(counts(mask), {.axes = {0, 1}}); }

}  // namespace

void check(const GatingOptions& o) {
  if (o.experts < 2)
    user_error("gating: {} experts; there have to be 2 at least, since tokens choose two",
               o.experts);
  if (!(o.capacity_factor > 0))
    user_error("gating: the capacity factor is {}; it has to be more than 0", o.capacity_factor);
  if (!(o.second_threshold > 0))
    user_error("gating: the threshold of second experts is {}; it has to be more than 0",
               o.second_threshold);
  if (o.min_capacity < 1)
    user_error("gating: the least capacity is {}; it has to be at least 1", o.min_capacity);
}

int64_t expert_capacity(const GatingOptions& o, int64_t tokens) {
  const double wanted = double(tokens) * o.capacity_factor / double(o.experts);
  if (o.form == GatingForm::published)
    return std::max<int64_t>(1, int64_t(std::ceil(wanted - kTiny)));
  const int64_t least = std::max(o.min_capacity, int64_t(wanted + kTiny));
  return (least + 3) / 4 * 4;
}

std::optional<Tensor> gating_noise(const GatingOptions& o, const Tensor& seed, const Dims& logits) {
  switch (o.second) {
    case SecondExpert::all:
      return std::nullopt;
    case SecondExpert::random:
      return random_uniform(seed, {logits.at(0), logits.at(1)});
    case SecondExpert::sampling:
      return random_gumbel(seed, logits);
  }
  return std::nullopt;
}

Routes top2_gating(const Tensor& logits, const GatingOptions& o, const std::optional<Tensor>& noise,
                   const std::optional<Tensor>& present) {
  check_logits(logits, o);
  const Dims tokens = {logits.dim(0), logits.dim(1)};
  const bool published = o.form == GatingForm::published;
  if (o.second != SecondExpert::all && !noise)
    user_error("gating: the policy of second experts needs random numbers; give gating_noise()");
  check_dims("the noise is", noise, o.second == SecondExpert::sampling ? logits.dims() : tokens);
  check_dims("the presence of tokens is", present, tokens);

  Routes routes;
  routes.experts = o.experts;
  routes.capacity = expert_capacity(o, logits.dim(1));
  TwoChoices c = two_choices(widened(logits), o, noise, present);
  const DType dtype = c.gates.dtype();
  Tensor chosen2 = c.mask2;
  if (o.second == SecondExpert::random) {
    const Tensor drawn = c.gate2 / o.second_threshold > convert(*noise, dtype);
    chosen2 = where(expand_dims(drawn, 2), c.mask2, 0.0);
  }
  // As published, choices that are not drawn leave their place empty; as released, they leave none.
  if (!published) c.mask2 = chosen2;

  const Tensor place1 = picked(running_before(c.mask1), c.mask1);
  // Behind all first choices: where some of these found no place, there is none.
  const Tensor before2 = sum(c.mask1, {.axes = 1, .keep_dims = true});
  const Tensor place2 = picked(running_before(c.mask2) + before2, c.mask2);

  const auto kept = [&](const Tensor& mask, const Tensor& place) {
    return logical_and(sum(mask, {.axes = 2}) > 0, place < double(routes.capacity));
  };
  const Tensor kept1 = kept(c.mask1, place1), kept2 = kept(chosen2, place2);
  routes.choices = {choice_of(c.expert1, place1, c.gate1, kept1),
                    choice_of(c.expert2, place2, c.gate2, kept2)};

  const double experts = double(o.experts);
  routes.aux_loss = published ? balance(c) : balance(c) * (experts * experts);
  routes.assigned = tokens_of_experts(c.mask1 + chosen2);
  const auto where_kept = [](const Tensor& mask, const Tensor& taken) {
    return where(expand_dims(taken, 2), mask, 0.0);
  };
  routes.kept = tokens_of_experts(where_kept(c.mask1, kept1) + where_kept(chosen2, kept2));
  const Tensor alone = counts(logical_not(logical_or(kept1, kept2)));
  routes.unserved = sum(present ? alone * *present : alone);
  return routes;
}

Routes dropless_gating(const Tensor& logits, const GatingOptions& o,
                       const std::optional<Tensor>& present) {
  check_logits(logits, o);
  check_dims("the presence of tokens is", present, {logits.dim(0), logits.dim(1)});
  GatingOptions all = o;
  all.second = SecondExpert::all;
  const TwoChoices c = two_choices(widened(logits), all, {}, present);
  const Tensor kept = sum(c.mask1, {.axes = 2}) > 0;
  Routes routes;
  routes.experts = o.experts;
  routes.choices = {choice_of(c.expert1, zeros_like(c.expert1), c.gate1, kept),
                    choice_of(c.expert2, zeros_like(c.expert2), c.gate2, kept)};
  const double experts = double(o.experts);
  routes.aux_loss = o.form == GatingForm::published ? balance(c) : balance(c) * (experts * experts);
  routes.assigned = routes.kept = tokens_of_experts(c.mask1 + c.mask2);
  routes.unserved = zeros(Shape(DType::f32, {}));
  return routes;
}

Routes expert_choice_gating(const Tensor& logits, const GatingOptions& o,
                            const std::optional<Tensor>& present) {
  check_logits(logits, o);
  check_dims("the presence of tokens is", present, {logits.dim(0), logits.dim(1)});
  const int64_t tokens = logits.dim(1);
  Routes routes;
  routes.experts = o.experts;
  routes.capacity = std::min(tokens, expert_capacity(o, tokens));
  const Tensor gates = transpose(masked(softmax(widened(logits)), present), {0, 2, 1});  // g,e,s
  auto [gate, token] = top_k(gates, routes.capacity);                                    // g,e,c
  // A gate of 0 is padding's, or so small that it is nothing.
  const Tensor filled = where(gate > 0, token, tokens);
  const Dims places = {logits.dim(0), o.experts * routes.capacity};
  routes.places = Places<Tensor>{reshape(filled, places), reshape(gate, places)};
  routes.aux_loss = zeros(Shape(DType::f32, {}));
  const Tensor taken = one_hot(filled, tokens);  // g,e,c,s; of no token zeros
  routes.assigned = routes.kept = sum(taken, {.axes = {0, 2, 3}});
  const Tensor alone = counts(sum(taken, {.axes = {1, 2}}) <= 0);  // g,s
  routes.unserved = sum(present ? alone * *present : alone);
  return routes;
}

// Each choice writes its token and gate where it belongs, those that are not kept outside of all
// places.
Places<Tensor> places_of(const std::vector<Choice<Tensor>>& choices, int64_t experts,
                         int64_t capacity) {
  const Dims dims = choices.at(0).expert.dims();  // g,s
  const int64_t count = experts * capacity;
  Places<Tensor> places;
  places.token = full(Shape(DType::s32, {dims[0], count}), double(dims[1]));
  places.gate = zeros(Shape(choices[0].gate.dtype(), {dims[0], count}));
  const Tensor group = iota(Shape(DType::s32, dims), 0);
  const Tensor token = iota(Shape(DType::s32, dims), 1);
  for (const Choice<Tensor>& c : choices) {
    const Tensor place = where(c.kept, c.expert * capacity + c.place, count);
    places.token = at(places.token, group, place).set(token);
    places.gate = at(places.gate, group, place).set(c.gate);
  }
  return places;
}

Tensor combine_weights(const Routes& routes, int64_t tokens) {
  if (routes.capacity < 1)
    user_error("gating: dropless routes have no places; run them by ragged products");
  if (routes.places) {
    const Tensor& gate = routes.places->gate;
    const Tensor weights =
        one_hot(routes.places->token, tokens, gate.dtype()) * expand_dims(gate, 2);  // g,e*c,s
    return reshape(transpose(weights, {0, 2, 1}),
                   {gate.dim(0), tokens, routes.experts, routes.capacity});
  }
  std::optional<Tensor> weights;
  for (const Choice<Tensor>& c : routes.choices) {
    const DType dtype = c.gate.dtype();
    const Tensor expert = one_hot(c.expert, routes.experts, dtype) * expand_dims(c.gate, 2);
    const Tensor place = one_hot(c.place, routes.capacity, dtype);
    const Tensor of_choice = expand_dims(expert, 3) * expand_dims(place, 2);  // g,s,e,c
    weights = weights ? *weights + of_choice : of_choice;
  }
  return *weights;
}

Tensor router_z_loss(const Tensor& logits) {
  const Tensor z = square(logsumexp(widened(logits)));
  return sum(z) * (1.0 / double(z.size()));
}

}  // namespace gspmd::models
