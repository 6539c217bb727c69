#include "models/moe.h"

#include <algorithm>
#include <utility>

namespace gspmd::models {
namespace {

AxisList without(const AxisList& axes, const AxisList& others) {
  AxisList kept;
  for (const std::string& axis : axes)
    if (std::find(others.begin(), others.end(), axis) == others.end()) kept.push_back(axis);
  return kept;
}

int64_t devices_along(const Mesh& mesh, const AxisList& axes) {
  int64_t devices = 1;
  for (const MeshAxis& axis : mesh.axes())
    if (std::find(axes.begin(), axes.end(), axis.name) != axes.end()) devices *= axis.size;
  return devices;
}

// One of an enumeration by its name; `what` says of which.
template <class Value>
Value value_of_name(std::string_view name, const char* what,
                    const std::vector<std::pair<std::string_view, Value>>& values) {
  std::string names;
  for (const auto& [known, value] : values) {
    if (known == name) return value;
    names += names.empty() ? "" : ", ";
    names += known;
  }
  user_error("{}: there is no \"{}\"; there are {}", what, name, names);
}

// Rows g,p,m of tokens g,s,m by their numbers g,p. Where there is none of that number, the last
// token: its place has a weight of 0, and sums_at() leaves it out.
Tensor rows_at(const Tensor& x, const Tensor& token) {
  return x(iota(token.shape(), 0), minimum(token, x.dim(1) - 1));
}

// Tokens g,s,m that are the sums of the rows g,p,m that have their numbers.
Tensor sums_at(const Tensor& rows, const Tensor& token, int64_t tokens) {
  const Tensor none = zeros(Shape(rows.dtype(), {rows.dim(0), tokens, rows.dim(2)}));
  return at(none, iota(token.shape(), 0), token).add(rows);
}

Tensor activated(const Tensor& x, Activation activation) {
  return activation == Activation::relu ? relu(x) : gelu(x);
}

// The two experts of each token by products of as many rows as each expert has. x g,s,m, experts
// and gates 2,g,s; each device does it for the tokens it has.
Tensor ragged_experts(const Tensor& x, const Tensor& experts, const Tensor& gates,
                      const Tensor& w_in, const Tensor& w_out, Activation activation) {
  const int64_t tokens = x.dim(0) * x.dim(1), model = x.dim(2);
  const Tensor expert = reshape(experts, {2 * tokens});
  const Tensor order = argsort(expert);  // the choices by expert
  const Tensor token = remainder(order, tokens);
  const Tensor sizes = sum(one_hot(expert, w_in.dim(0), DType::s32), {.axes = 0});
  const Tensor rows = take(reshape(x, {tokens, model}), token);
  const Tensor hidden = activated(ragged_dot(rows, w_in, sizes), activation);
  const Tensor out = ragged_dot(hidden, w_out, sizes);
  const Tensor gate = convert(take(reshape(gates, {2 * tokens}), order), out.dtype());
  const Tensor y =
      at(zeros(Shape(out.dtype(), {tokens, model})), token).add(out * expand_dims(gate, 1));
  return reshape(y, x.dims());
}

}  // namespace

Routing routing_of_name(std::string_view name) {
  return value_of_name<Routing>(name, "routing",
                                {{"top2", Routing::top2},
                                 {"dropless", Routing::dropless},
                                 {"expert-choice", Routing::expert_choice}});
}

Dispatch dispatch_of_name(std::string_view name) {
  return value_of_name<Dispatch>(name, "dispatch",
                                 {{"einsum", Dispatch::einsum}, {"gather", Dispatch::gather}});
}

GatingForm gating_form_of_name(std::string_view name) {
  return value_of_name<GatingForm>(
      name, "gating", {{"published", GatingForm::published}, {"released", GatingForm::released}});
}

SecondExpert second_expert_of_name(std::string_view name) {
  return value_of_name<SecondExpert>(name, "second expert",
                                     {{"random", SecondExpert::random},
                                      {"sampling", SecondExpert::sampling},
                                      {"all", SecondExpert::all}});
}

void check(const MoeConfig& c) {
  check(c.gating);
  const std::pair<const char*, int64_t> sizes[] = {
      {"model", c.model}, {"hidden", c.hidden}, {"group", c.group}};
  for (const auto& [name, value] : sizes)
    if (value < 1) user_error("moe: {} is {}; it must be at least 1", name, value);
}

MoeParams<Shape> parameter_shapes(const MoeConfig& c) {
  check(c);
  const int64_t e = c.gating.experts;
  return {Shape(c.dtype, {c.model, e}), Shape(c.dtype, {e, c.model, c.hidden}),
          Shape(c.dtype, {e, c.hidden, c.model})};
}

double forward_flops(const MoeConfig& c) {
  const double experts = c.routing == Routing::expert_choice ? c.gating.capacity_factor : 2;
  const double m = double(c.model);
  return 2 * m * double(c.gating.experts) + experts * 4 * m * double(c.hidden);
}

MoeLayer::MoeLayer(const MoeConfig& config, const Mesh& mesh, const MoeLayout& layout)
    : config_(config), mesh_(mesh), layout_(layout) {
  check(config);
}

bool MoeLayer::draws() const {
  return config_.routing == Routing::top2 && config_.gating.second != SecondExpert::all;
}

Tensor MoeLayer::split(const Tensor& x, const std::vector<AxisList>& dims) const {
  if (mesh_.num_devices() == 1) return x;
  return mesh_split(x, mesh_, std::vector<DimSplit>(dims.begin(), dims.end()));
}

Routes MoeLayer::routes(const Tensor& logits, const std::optional<Tensor>& seed,
                        const std::optional<Tensor>& present) const {
  const GatingOptions& o = config_.gating;
  if (config_.routing == Routing::dropless) return dropless_gating(logits, o, present);
  if (config_.routing == Routing::expert_choice) return expert_choice_gating(logits, o, present);
  if (!draws()) return top2_gating(logits, o, {}, present);
  if (!seed) user_error("moe: the second experts are drawn; give a seed, or take all of them");
  return top2_gating(logits, o, gating_noise(o, *seed, logits.dims()), present);
}

// Whether gathers run in a manual region, which sees the groups of one device.
bool MoeLayer::is_manual(int64_t groups) const {
  const int64_t devices = devices_along(mesh_, layout_.groups);
  if (groups % devices != 0)
    user_error(
        "moe: {} devices do not divide {} groups; give a batch of a multiple of them, smaller "
        "groups, or dispatch by einsum",
        devices, groups);
  return devices > 1;
}

Places<Tensor> MoeLayer::places(const Routes& r) const {
  if (r.places) return *r.places;
  const auto fill = [experts = r.experts,
                     capacity = r.capacity](const std::vector<Choice<Tensor>>& choices) {
    return places_of(choices, experts, capacity);
  };
  const SplitDims group = {layout_.groups};
  return is_manual(r.choices.at(0).expert.dim(0))
             ? shard_map(fill, mesh_, group, group, layout_.groups)(r.choices)
             : fill(r.choices);
}

// The experts' tables g,e,c,m where the tokens are.
Tensor MoeLayer::sent(const Tensor& x, const Routes& r) const {
  if (config_.dispatch == Dispatch::einsum) {
    const Tensor taken = not_equal(combine_weights(r, x.dim(1)), 0);
    return einsum("gsec,gsm->gecm", convert(taken, x.dtype()), x);
  }
  const int64_t groups = x.dim(0);
  const Tensor token = places(r).token;
  const SplitDims group = {layout_.groups};
  const Tensor rows = is_manual(groups) ? shard_map(rows_at, mesh_, std::tuple{group, group}, group,
                                                    layout_.groups)(x, token)
                                        : rows_at(x, token);
  return reshape(rows, {groups, r.experts, r.capacity, x.dim(2)});
}

// Tokens g,s,m from tables g,e,c,m, weighted by the gates.
Tensor MoeLayer::returned(const Tensor& out, const Routes& r, int64_t tokens) const {
  if (config_.dispatch == Dispatch::einsum)
    return einsum("gsec,gecm->gsm", convert(combine_weights(r, tokens), out.dtype()), out);
  const int64_t groups = out.dim(0), count = r.experts * r.capacity;
  const auto [token, gate] = places(r);
  const Tensor flat = reshape(out, {groups, count, out.dim(3)});
  const Tensor rows = flat * expand_dims(convert(gate, out.dtype()), 2);
  const auto sums = [tokens](const Tensor& x, const Tensor& t) { return sums_at(x, t, tokens); };
  const SplitDims group = {layout_.groups};
  return is_manual(groups)
             ? shard_map(sums, mesh_, std::tuple{group, group}, group, layout_.groups)(rows, token)
             : sums(rows, token);
}

Tensor MoeLayer::by_tables(const MoeParams<Tensor>& params, const Tensor& x,
                           const Routes& routes) const {
  // Where experts are, groups are split by the axes that do not split experts.
  const AxisList& experts = layout_.experts;
  const AxisList rest = without(layout_.groups, experts);
  Tensor tables = named(sent(x, routes), "sent");
  tables = split(tables, {layout_.groups, {}, {}, {}});
  tables = split(tables, {rest, experts, {}, {}});
  const Tensor w_in = split(params.w_in, {experts, {}, layout_.expert_hidden});
  const Tensor w_out = split(params.w_out, {experts, layout_.expert_hidden, {}});
  const Tensor hidden = activated(einsum("gecm,emh->gech", tables, w_in), config_.activation);
  Tensor out = named(einsum("gech,ehm->gecm", hidden, w_out), "computed");
  out = split(out, {rest, experts, {}, {}});
  out = split(out, {layout_.groups, {}, {}, {}});
  return returned(out, routes, x.dim(1));
}

Tensor MoeLayer::by_ragged_products(const MoeParams<Tensor>& params, const Tensor& x,
                                    const Routes& routes) const {
  const Choice<Tensor>&first = routes.choices.at(0), &second = routes.choices.at(1);
  const Tensor experts = stack({first.expert, second.expert});
  const Tensor gates = stack({first.gate, second.gate});
  const Tensor w_in = split(params.w_in, {layout_.experts, {}, layout_.expert_hidden});
  const Tensor w_out = split(params.w_out, {layout_.experts, layout_.expert_hidden, {}});
  const auto run = [activation = config_.activation](
                       const Tensor& t, const Tensor& e, const Tensor& g, const Tensor& in,
                       const Tensor& out) { return ragged_experts(t, e, g, in, out, activation); };
  if (!is_manual(x.dim(0))) return run(x, experts, gates, w_in, w_out);
  const SplitDims group = {layout_.groups}, choice = {_, layout_.groups}, whole = {_};
  return shard_map(run, mesh_, std::tuple{group, choice, choice, whole, whole}, group,
                   layout_.groups)(x, experts, gates, w_in, w_out);
}

MoeLayer::Result MoeLayer::operator()(const MoeParams<Tensor>& params, const Tensor& x,
                                      const std::optional<Tensor>& seed,
                                      const std::optional<Tensor>& present) const {
  const NameScope scope("moe");
  if (x.rank() != 3 || x.dim(2) != config_.model)
    user_error("moe: the tokens are {}; they have to be b,t,m with m = {}", to_string(x.shape()),
               config_.model);
  const int64_t tokens = x.dim(0) * x.dim(1);
  if (tokens % config_.group != 0)
    user_error("moe: groups of {} tokens do not divide the {} tokens of {}; choose a divisor",
               config_.group, tokens, to_string(x.shape()));
  const Dims groups = {tokens / config_.group, config_.group};
  const Tensor grouped =
      split(reshape(x, {groups[0], groups[1], config_.model}), {layout_.groups, {}, {}});
  std::optional<Tensor> counted;
  if (present) counted = reshape(*present, groups);

  const Tensor logits = einsum("gsm,me->gse", grouped, split(params.router, {{}, {}}));
  const Routes r = routes(logits, seed, counted);
  const Tensor y = config_.routing == Routing::dropless ? by_ragged_products(params, grouped, r)
                                                        : by_tables(params, grouped, r);
  return {reshape(y, x.dims()),
          {r.aux_loss, router_z_loss(logits), r.assigned, r.kept, r.unserved}};
}

std::vector<double> device_loads(const Array& counts, const Mesh& mesh, const MoeLayout& layout) {
  const int64_t experts = counts.dim(-1);
  std::vector<DimSplit> dims(counts.dims().size(), _);
  dims.back() = DimSplit(layout.experts);
  const Sharding sharding = sharding_of(mesh, dims);
  std::vector<double> loads(static_cast<size_t>(mesh.num_devices()));
  for (size_t d = 0; d < loads.size(); ++d) {
    const Box box = shard_box(counts.shape(), sharding, int64_t(d));
    for (int64_t i = 0; i < counts.size(); ++i) {
      const int64_t e = i % experts;
      if (e >= box.start.back() && e < box.start.back() + box.size.back()) loads[d] += counts.at(i);
    }
  }
  return loads;
}

}  // namespace gspmd::models
