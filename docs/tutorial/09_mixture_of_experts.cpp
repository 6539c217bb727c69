//! # 9. A mixture of experts
//!
//! A mixture of experts has many feed-forward layers, and each token uses one of them. Experts live
//! on different devices, so tokens have to travel: an *all-to-all* there and one back. In GSPMD you
//! do not write it. You say that experts are cut over an axis, and the partitioner finds out
//! ([arXiv:2105.04663](https://arxiv.org/abs/2105.04663), 5.4).

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"
#include "lesson.h"

using namespace gspmd;

//! ## Letters
//!
//! Tokens come in groups, one per device: `g` groups of `s` tokens of `m` numbers. There are `e`
//! experts, and each takes `c` tokens of a group at most, its capacity.

constexpr int64_t kGroups = 4, kTokens = 8, kModel = 16, kExperts = 4, kCapacity = 2, kHidden = 32;
const Mesh mesh{{"devices", 4}};

//! ## Routing
//!
//! The router scores the experts of each token. A token goes to the best expert and takes the next
//! free place there; one that finds no place is dropped. `one_hot` turns numbers into masks, and
//! the place of a token is the number of tokens before it that chose the same expert: a product
//! with a triangle of ones. The result `dispatch` is g,s,e,c with a one where token s of group g
//! has place c of expert e.
//!
//! A choice has no derivative, so a router that only chooses would never learn. What comes back
//! from the expert is therefore multiplied by the *gate*, the probability that the router gave to
//! its choice: `combine` has the gate where `dispatch` has a one. Through it the loss says whether
//! the chosen expert should have been trusted more, or less.

struct Routes {
  Tensor dispatch, combine;  // g,s,e,c
};

Routes routes(Tensor x, Tensor router) {
  const Tensor scores = einsum("gsm,me->gse", x, router);
  const Tensor best = max(scores, {.axes = -1, .keep_dims = true});
  const Tensor chosen = convert(scores >= best, DType::f32);  // g,s,e

  const Shape square(DType::s32, {kTokens, kTokens});
  const Tensor earlier = convert(iota(square, 0) < iota(square, 1), DType::f32);  // before, after
  const Tensor place = einsum("gte,ts->gse", chosen, earlier);                    // tokens before s
  const Tensor dispatch = expand_dims(chosen, 3) * one_hot(convert(place, DType::s32), kCapacity);
  return {dispatch, dispatch * expand_dims(softmax(scores), 3)};
}

//! ## The layer
//!
//! Three steps: send tokens to their experts, run the experts, send the results back. Activations
//! are cut by group and weights by expert, both over the same axis. The two annotations of `sent`
//! say that the table of places is filled where the tokens are, cut by `g`, and then needed where
//! the experts are, cut by `e`. Between the two lies the all-to-all, and `back` is the same in the
//! other direction.

Tensor experts(Tensor x, Tensor router, Tensor w_in, Tensor w_out) {
  x = mesh_split(x, mesh, {"devices", _, _});
  const auto [dispatch, combine] = routes(x, router);

  Tensor sent = named(einsum("gsec,gsm->gecm", dispatch, x), "sent");
  sent = mesh_split(sent, mesh, {"devices", _, _, _});
  sent = mesh_split(sent, mesh, {_, "devices", _, _});

  const Tensor hidden = relu(einsum("gecm,emh->gech", sent, w_in));
  Tensor back = named(einsum("gech,ehm->gecm", hidden, w_out), "back");
  back = mesh_split(back, mesh, {_, "devices", _, _});
  back = mesh_split(back, mesh, {"devices", _, _, _});
  return einsum("gsec,gecm->gsm", combine, back);
}

auto arguments() {
  const auto normal = [](Dims dims, uint32_t seed) {
    return random_normal_array(Shape(DType::f32, std::move(dims)), seed);
  };
  return std::tuple{normal({kGroups, kTokens, kModel}, 1), normal({kModel, kExperts}, 2),
                    normal({kExperts, kModel, kHidden}, 3), normal({kExperts, kHidden, kModel}, 4)};
}

//! ## What it sends
//!
//! Each device sends three quarters of its group's table of places, once in each direction. Weights
//! stay where they are.

void what_it_sends() {
  const auto [x, router, w_in, w_out] = arguments();
  const auto step = compile(experts, {.mesh = mesh}, x, router, w_in, w_out);
  const int64_t table = kExperts * kCapacity * kModel * 4;  // bytes, of one group
  int64_t all_to_alls = 0;
  for (const CollectiveStats& c : step.stats().uncombined) {
    show(fmt::format("{} over {}: {} bytes for {}", c.kind, c.axes, c.bytes, c.op));
    if (c.kind != "all-to-all") continue;
    all_to_alls += c.count;
    CHECK(c.bytes == table * 3 / 4);
  }
  CHECK(all_to_alls == 2);
  CHECK(step.parameter_sharding(2) == sharding_of(mesh, {"devices", _, _}));
  CHECK(step.parameter_sharding(3) == sharding_of(mesh, {"devices", _, _}));
}

//! ## It computes what it says
//!
//! The plain interpreter knows nothing of devices. And a token that got a place is transformed by
//! its expert, while a dropped one comes out as zeros.

void it_computes_what_it_says() {
  const auto [x, router, w_in, w_out] = arguments();
  const auto step = compile(experts, {.mesh = mesh}, x, router, w_in, w_out);
  const Array y = step(x, router, w_in, w_out);
  CHECK(expect_close({y}, reference_results(experts, x, router, w_in, w_out), {1e-4, 1e-4}));

  int64_t dropped = 0;
  for (int64_t token = 0; token < kGroups * kTokens; ++token) {
    bool zero = true;
    for (int64_t m = 0; m < kModel; ++m) zero = zero && y.at(token * kModel + m) == 0;
    dropped += zero ? 1 : 0;
  }
  CHECK(dropped < kGroups * kTokens / 2);
  show(fmt::format("{} of {} tokens found no place", dropped, kGroups * kTokens));
}

//! ## Backward is free
//!
//! The gradient of an all-to-all is an all-to-all the other way. Nothing has to be written for it.

void backward() {
  const auto [x, router, w_in, w_out] = arguments();
  const auto loss = [](Tensor a, Tensor b, Tensor c, Tensor r) {
    return mean(square(experts(c, r, a, b)));
  };
  const auto step =
      compile(value_and_grad(loss), {.mesh = mesh, .prepare = false}, w_in, w_out, x, router);
  int64_t backward = 0;
  for (const CollectiveStats& c : step.stats().uncombined)
    if (c.backward && c.kind == "all-to-all") backward += c.count;
  CHECK(backward >= 1);
}

//! ## The router learns
//!
//! To see the gates at work, take a layer whose router is right, and give a copy of it another
//! router, which sends most tokens to wrong experts. Train that router alone, by what the layer
//! should have given.

void the_router_learns() {
  const auto [x, router, w_in, w_out] = arguments();
  const Array target =
      compile(experts, {.mesh = mesh}, x, router, w_in, w_out)(x, router, w_in, w_out);
  const auto loss = [](Tensor r, Tensor a, Tensor b, Tensor c, Tensor wanted) {
    return mean(square(experts(a, r, b, c) - wanted));
  };
  const auto step = [&](Tensor r, Adam<Tensor> adam, Tensor a, Tensor b, Tensor c, Tensor wanted) {
    const auto [value, gradient] = value_and_grad(loss)(r, a, b, c, wanted);
    const auto [next, state] = adam.update(r, gradient, {.lr = 0.05});
    return std::tuple{next, state, value};
  };
  // How many tokens two routers send to the same expert.
  const auto agreement = [&, x = x](const Array& a, const Array& b) {
    const auto count = [](Tensor t, Tensor r, Tensor s) {
      const Tensor one = argmax(einsum("gsm,me->gse", t, r), {.axis = -1});
      const Tensor other = argmax(einsum("gsm,me->gse", t, s), {.axis = -1});
      return sum(convert(equal(one, other), DType::s32));
    };
    return static_cast<int64_t>(reference_results(count, x, a, b)[0].item());
  };

  Array learned = random_normal_array(router.shape(), 9);
  auto adam = Adam<Array>::zeros_like(learned);
  const auto train = compile(step, {.mesh = mesh}, learned, adam, x, w_in, w_out, target);
  const int64_t agreed_before = agreement(learned, router);
  Array value;
  double first = 0;
  for (int i = 0; i < 200; ++i) {
    std::tie(learned, adam, value) = train(learned, adam, x, w_in, w_out, target);
    if (i == 0) first = value.item();
  }
  const int64_t agreed = agreement(learned, router);
  show(fmt::format("loss {:.1f} -> {:.1f}; tokens with the right expert: {} -> {} of {}", first,
                   value.item(), agreed_before, agreed, kGroups * kTokens));
  CHECK(value.item() < first / 2);
  CHECK(agreed > agreed_before);
}

int main() {
  what_it_sends();
  it_computes_what_it_says();
  backward();
  the_router_learns();
}
