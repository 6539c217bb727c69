// Gating against the algorithms as they are written down: loops over the tokens of one group.
#include "models/gating.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gspmd/testing.h"

namespace gspmd::models {
namespace {

// One group's weights: s,e,c, and what is counted.
struct Literal {
  std::vector<float> combine;
  std::vector<float> assigned, kept;  // e
  float aux = 0;
  int64_t unserved = 0;
};

struct Group {
  int64_t tokens, experts, capacity;
  const float* logits;   // s,e
  const float* noise;    // s, or s,e for sampling
  const float* present;  // s
};

std::vector<float> softmax_of(const float* logits, int64_t experts) {
  float highest = logits[0], total = 0;
  for (int64_t e = 1; e < experts; ++e) highest = std::max(highest, logits[e]);
  std::vector<float> gates(static_cast<size_t>(experts));
  for (int64_t e = 0; e < experts; ++e) total += gates[size_t(e)] = std::exp(logits[e] - highest);
  for (float& gate : gates) gate /= total;
  return gates;
}

// The greatest of the numbers, the first of equals, but for one place.
int64_t best_but(const std::vector<float>& numbers, int64_t but) {
  int64_t best = -1;
  for (int64_t e = 0; e < std::ssize(numbers); ++e)
    if (e != but && (best < 0 || numbers[size_t(e)] > numbers[size_t(best)])) best = e;
  return best;
}

struct Top2 {
  int64_t e1, e2;
  float g1, g2;
};

Top2 top2_of(const Group& group, const GatingOptions& o, int64_t s) {
  const std::vector<float> gates = softmax_of(group.logits + s * group.experts, group.experts);
  Top2 t{};
  t.e1 = best_but(gates, -1);
  std::vector<float> others = gates;
  if (o.second == SecondExpert::sampling)
    for (int64_t e = 0; e < group.experts; ++e) {
      const int64_t i = s * group.experts + e;
      others[size_t(e)] = group.logits[i] + group.noise[i];
    }
  t.e2 = best_but(others, t.e1);
  const float total =
      gates[size_t(t.e1)] + gates[size_t(t.e2)] + (o.form == GatingForm::released ? 1e-9f : 0.f);
  t.g1 = gates[size_t(t.e1)] / total;
  t.g2 = gates[size_t(t.e2)] / total;
  return t;
}

// Algorithm 1 of arXiv:2006.16668, line by line, and what its release does otherwise.
Literal literal(const Group& group, const GatingOptions& o) {
  const int64_t S = group.tokens, E = group.experts, C = group.capacity;
  const bool published = o.form == GatingForm::published;
  Literal result;
  result.combine.assign(size_t(S * E * C), 0);
  result.assigned.assign(size_t(E), 0);
  result.kept = result.assigned;
  std::vector<int64_t> count(size_t(E), 0), served(size_t(S), 0);
  std::vector<float> mean_gate(size_t(E), 0), first(size_t(E), 0);
  const auto take = [&](int64_t s, int64_t e, float gate) {
    result.combine[size_t((s * E + e) * C + count[size_t(e)])] = gate;
    result.kept[size_t(e)] += 1;
    served[size_t(s)] = 1;
  };
  for (int64_t s = 0; s < S; ++s) {
    if (group.present[s] == 0) continue;
    const std::vector<float> gates = softmax_of(group.logits + s * E, E);
    for (size_t e = 0; e < gates.size(); ++e) mean_gate[e] += gates[e] / float(S);
    const Top2 t = top2_of(group, o, s);
    const auto e = size_t(t.e1);
    result.assigned[e] += 1;
    first[e] += 1;
    const bool room = count[e] < C;
    if (room) take(s, t.e1, t.g1);
    if (room || published) ++count[e];
  }
  for (size_t e = 0; e < first.size(); ++e)
    result.aux += first[e] / float(S) * mean_gate[e] / float(E);
  if (!published) result.aux *= float(E * E);
  for (int64_t s = 0; s < S; ++s) {
    if (group.present[s] == 0) continue;
    const Top2 t = top2_of(group, o, s);
    const auto e = size_t(t.e2);
    const bool drawn =
        o.second != SecondExpert::random || t.g2 / float(o.second_threshold) > group.noise[s];
    result.assigned[e] += drawn ? 1 : 0;
    if (count[e] < C && drawn) take(s, t.e2, t.g2);
    if (drawn || published) ++count[e];
  }
  for (int64_t s = 0; s < S; ++s)
    if (group.present[s] != 0 && served[size_t(s)] == 0) ++result.unserved;
  return result;
}

struct Case {
  int64_t groups, tokens;
  GatingOptions options;
  bool ties = false;     // logits of few values
  bool padding = false;  // a fifth of the tokens
};

struct Inputs {
  Array logits, noise, present;
};

Inputs inputs_of(const Case& c, uint32_t seed) {
  const Dims gs = {c.groups, c.tokens}, gse = {c.groups, c.tokens, c.options.experts};
  Inputs in;
  in.logits = random_normal_array(Shape(DType::f32, gse), seed, 0);
  if (c.ties)
    for (float& x : in.logits.data<float>()) x = std::floor(x * 2) / 2;
  const bool sampling = c.options.second == SecondExpert::sampling;
  in.noise = random_uniform_array(Shape(DType::f32, sampling ? gse : gs), seed, 1);
  if (sampling)
    for (float& x : in.noise.data<float>()) x = -std::log(-std::log(x + 1e-20f));
  in.present = random_uniform_array(Shape(DType::f32, gs), seed, 2);
  for (float& x : in.present.data<float>()) x = !c.padding || x > 0.2f ? 1 : 0;
  return in;
}

// The results of top2_gating on all groups.
auto run(const Case& c, const Inputs& in) {
  const auto fn = [c](Tensor logits, Tensor noise, Tensor present) {
    const Routes r = top2_gating(logits, c.options, noise, present);
    const auto places = places_of(r.choices, r.experts, r.capacity);
    return std::tuple{combine_weights(r, c.tokens),
                      places.token,
                      places.gate,
                      r.aux_loss,
                      r.assigned,
                      r.kept,
                      r.unserved};
  };
  return compile(fn, {.threads = 1}, in.logits, in.noise, in.present)(in.logits, in.noise,
                                                                      in.present);
}

// Compares all groups of a case; returns how many there were.
int64_t check_case(const Case& c, uint32_t seed) {
  const Inputs in = inputs_of(c, seed);
  const auto [combine, token, gate, aux, assigned, kept, unserved] = run(c, in);
  const int64_t S = c.tokens, E = c.options.experts, C = expert_capacity(c.options, S);
  const bool sampling = c.options.second == SecondExpert::sampling;
  std::vector<float> all_assigned(size_t(E), 0), all_kept(size_t(E), 0);
  double all_aux = 0;
  int64_t wrong = 0, all_unserved = 0;
  for (int64_t g = 0; g < c.groups; ++g) {
    const Literal wanted = literal({S, E, C, in.logits.data<float>().data() + g * S * E,
                                    in.noise.data<float>().data() + g * S * (sampling ? E : 1),
                                    in.present.data<float>().data() + g * S},
                                   c.options);
    std::vector<int64_t> holder(size_t(E * C), S);
    for (int64_t i = 0; i < S * E * C; ++i) {
      const double actual = combine.at(g * S * E * C + i), expected = wanted.combine[size_t(i)];
      // Whether there is one is exact; the weight is a quotient of sums of exponentials.
      wrong += (actual != 0) != (expected != 0) || std::abs(actual - expected) > 2e-6;
      if (expected == 0) continue;
      holder[size_t(i % (E * C))] = i / (E * C);
      wrong += std::abs(gate.at(g * E * C + i % (E * C)) - expected) > 2e-6;
    }
    for (int64_t p = 0; p < E * C; ++p)
      wrong += token.at(g * E * C + p) != double(holder[size_t(p)]);
    for (size_t e = 0; e < size_t(E); ++e) {
      all_assigned[e] += wanted.assigned[e];
      all_kept[e] += wanted.kept[e];
      wrong += wanted.kept[e] > float(C);
    }
    all_aux += wanted.aux / double(c.groups);
    all_unserved += wanted.unserved;
  }
  for (int64_t e = 0; e < E; ++e) {
    wrong += assigned.at(e) != all_assigned[size_t(e)];
    wrong += kept.at(e) != all_kept[size_t(e)];
  }
  wrong += unserved.item() != double(all_unserved);
  wrong += std::abs(aux.item() - all_aux) > 1e-5 * all_aux;
  CHECK(wrong == 0);
  return c.groups;
}

GatingOptions options_of(int64_t experts, GatingForm form, SecondExpert second, double factor) {
  GatingOptions o;
  o.experts = experts;
  o.form = form;
  o.second = second;
  o.capacity_factor = factor;
  return o;
}

}  // namespace

TEST_CASE("gating: 1,000 groups as algorithm 1 does them, token by token", "[moe]") {
  int64_t cases = 0;
  uint32_t seed = 1;
  for (const int64_t experts : {2, 3, 4, 8, 16})
    for (const int64_t tokens : {5, 16, 33})
      for (const bool ties : {false, true}) {
        INFO(experts << " experts, " << tokens << " tokens" << (ties ? ", ties" : ""));
        const double factor = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 2 : 0.7;
        Case c{40, tokens,
               options_of(experts, GatingForm::published, SecondExpert::random, factor)};
        c.ties = ties;
        c.padding = seed % 4 == 0;
        cases += check_case(c, seed++);
      }
  CHECK(cases >= 1000);
}

TEST_CASE("gating: the released form's groups, with every policy", "[moe]") {
  uint32_t seed = 100;
  for (const SecondExpert second :
       {SecondExpert::all, SecondExpert::random, SecondExpert::sampling})
    for (const GatingForm form : {GatingForm::released, GatingForm::published})
      for (const int64_t tokens : {16, 50}) {
        INFO("policy " << int(second) << " form " << int(form) << ", " << tokens << " tokens");
        Case c{30, tokens, options_of(4, form, second, 1)};
        c.options.second_threshold = 0.2;
        c.padding = seed % 2 == 0;
        check_case(c, seed++);
      }
}

TEST_CASE("gating: capacities as published and as released", "[moe]") {
  GatingOptions o = options_of(8, GatingForm::published, SecondExpert::all, 2);
  CHECK(expert_capacity(o, 128) == 32);
  CHECK(expert_capacity(o, 5) == 2);  // 1.25
  o.form = GatingForm::released;
  CHECK(expert_capacity(o, 128) == 32);
  CHECK(expert_capacity(o, 5) == 4);    // the least
  CHECK(expert_capacity(o, 84) == 24);  // 21
  o.min_capacity = 5;
  CHECK(expert_capacity(o, 5) == 8);
}

TEST_CASE("gating: the aux loss is 1/E^2, or 1, where experts are equally liked", "[moe]") {
  // Token s likes expert s mod E, and the sums of gates are equal.
  const int64_t E = 4, S = 16;
  Array logits(Shape(DType::f32, {2, S, E}));
  for (int64_t i = 0; i < 2 * S; ++i) logits.set(i * E + i % E, 3);
  for (const GatingForm form : {GatingForm::published, GatingForm::released}) {
    const GatingOptions o = options_of(E, form, SecondExpert::all, 2);
    const auto fn = [o](Tensor x) { return top2_gating(x, o, {}).aux_loss; };
    CHECK(compile(fn, {}, logits)(logits).item() ==
          Approx(form == GatingForm::published ? 1.0 / (E * E) : 1.0));
  }
}

TEST_CASE("gating: the aux loss has the gradient of finite differences", "[moe]") {
  const int64_t E = 3, S = 4, n = 2 * S * E;
  for (const GatingForm form : {GatingForm::published, GatingForm::released}) {
    const GatingOptions o = options_of(E, form, SecondExpert::all, 1);
    const Array logits = random_normal_array(Shape(DType::f64, {2, S, E}), 5);
    const auto loss = [o](Tensor x) { return top2_gating(x, o, {}).aux_loss + router_z_loss(x); };
    const auto both = compile(value_and_grad(loss), {}, logits);
    const auto [value, gradient] = both(logits);
    for (int64_t i = 0; i < n; ++i) {
      Array up = logits.clone(), down = logits.clone();
      up.set(i, up.at(i) + 1e-6);
      down.set(i, down.at(i) - 1e-6);
      const double slope = (both(up).first.item() - both(down).first.item()) / 2e-6;
      CHECK(gradient.at(i) == Approx(slope).margin(1e-8));
    }
  }
}

TEST_CASE("gating: experts choose the tokens that like them most", "[moe]") {
  const int64_t G = 20, S = 12, E = 4;
  const GatingOptions o = options_of(E, GatingForm::published, SecondExpert::all, 0.7);
  const int64_t C = expert_capacity(o, S);
  const Array logits = random_normal_array(Shape(DType::f32, {G, S, E}), 9);
  const auto fn = [o, S = S](Tensor x) {
    const Routes r = expert_choice_gating(x, o);
    return std::tuple{combine_weights(r, S), r.kept, r.unserved};
  };
  const auto [combine, kept, unserved] = compile(fn, {}, logits)(logits);
  int64_t wrong = 0, alone = 0;
  for (int64_t g = 0; g < G; ++g) {
    std::vector<int64_t> times(size_t(S), 0);
    for (int64_t e = 0; e < E; ++e)
      for (int64_t s = 0; s < S; ++s) {
        const auto gate_of = [&](int64_t t) {
          return softmax_of(logits.data<float>().data() + (g * S + t) * E, E)[size_t(e)];
        };
        int64_t better = 0;
        for (int64_t t = 0; t < S; ++t) better += gate_of(t) > gate_of(s);
        for (int64_t c = 0; c < C; ++c) {
          const double actual = combine.at(((g * S + s) * E + e) * C + c);
          wrong += std::abs(actual - (c == better ? gate_of(s) : 0)) > 1e-6;
        }
        times[size_t(s)] += better < C;
      }
    for (const int64_t t : times) alone += t == 0;
  }
  CHECK(wrong == 0);
  CHECK(alone > 0);
  CHECK(unserved.item() == double(alone));
  for (int64_t e = 0; e < E; ++e) CHECK(kept.at(e) == double(G * C));
}

TEST_CASE("gating: experts do not choose padding", "[moe]") {
  const GatingOptions o = options_of(2, GatingForm::published, SecondExpert::all, 1);
  const Array logits = random_normal_array(Shape(DType::f32, {1, 8, 2}), 9);
  const Array present = Array::of<float>({1, 8}, {1, 0, 0, 1, 0, 0, 0, 0});
  const auto fn = [o](Tensor x, Tensor p) {
    const Routes r = expert_choice_gating(x, o, p);
    return std::tuple{combine_weights(r, 8), r.kept, r.unserved};
  };
  const auto [combine, kept, unserved] = compile(fn, {}, logits, present)(logits, present);
  for (int64_t i = 0; i < combine.size(); ++i)
    if (present.at(i / 8) == 0) CHECK(combine.at(i) == 0);
  CHECK(kept.at(0) == 2);  // of four places
  CHECK(kept.at(1) == 2);
  CHECK(unserved.item() == 0);
}

TEST_CASE("gating: wrong input is named", "[moe]") {
  const auto message = [](const GatingOptions& o, const Dims& dims, bool noise) {
    try {
      const auto fn = [&](Tensor x) {
        return top2_gating(x, o, noise ? std::optional(sum(x, {.axes = 1})) : std::nullopt)
            .aux_loss;
      };
      compile(fn, {.prepare = false}, Shape(DType::f32, dims));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using Catch::Contains;
  const GatingOptions o = options_of(4, GatingForm::published, SecondExpert::random, 2);
  CHECK_THAT(message(o, {2, 8, 5}, true), Contains("f32[2,8,5]; they have to be g,s,e with 4"));
  CHECK_THAT(message(o, {2, 8}, true), Contains("f32[2,8]; they have to be g,s,e"));
  CHECK_THAT(message(o, {2, 8, 4}, false), Contains("needs random numbers; give gating_noise()"));
  CHECK_THAT(message(o, {2, 8, 4}, true), Contains("the noise is f32[2,4]; it has to have dims"));
  GatingOptions bad = o;
  bad.experts = 1;
  CHECK_THAT(message(bad, {2, 8, 1}, true), Contains("1 experts; there have to be 2"));
  bad = o;
  bad.capacity_factor = 0;
  CHECK_THAT(message(bad, {2, 8, 4}, true), Contains("capacity factor is 0"));
}

}  // namespace gspmd::models
