#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/pipeline_schedule.h"

namespace gspmd::models {

// How pipeline() runs.
struct PipelineOptions {
  PipelineKind kind = PipelineKind::gpipe;
  int64_t stages = 1;
  Mesh mesh = {};
  // The axis of the mesh that splits the stages; empty: they are not split. It need not have as
  // many devices as there are stages.
  std::string mesh_axis = {};
  // What a stage computes is made again for its gradient; what it is given is kept. Else all is
  // kept, and the layers of a stage are written out one after the other.
  bool remat = true;
  // What idle slots compute on. A layer and its derivative have to be finite there.
  double idle = 0;
  // Fills every slot that does not count, of inputs, outputs and buffers, before the guards (tests:
  // NaN must change nothing).
  std::optional<double> poison = {};
};

// Which layer of all runs, on which micro-batch: s32[]. In idle slots any of them.
template <class T>
struct PipelinePlace {
  T layer, microbatch;
  GSPMD_FIELDS(layer, microbatch)
};

// [b, ...] -> [n, b/n, ...]: rows i, i + n, i + 2n, ... are micro-batch i, so that each device
// keeps its own rows of a batch that is split. UserError: n does not divide the batch.
Tensor to_microbatches(const Tensor& x, int64_t n, Site site = Site::here());
// [n, b/n, ...] -> [b, ...], the way back.
Tensor from_microbatches(const Tensor& x);

namespace detail {

// One leaf after the other of what a pipeline is made of. Letters: t iterations, m micro-batches, l
// stages, r rounds, k layers of a block; ... the dims of a leaf of x.
class PipelineParts {
 public:
  PipelineParts(const PipelineOptions& options, const gspmd::detail::PathLeaves& weights,
                const gspmd::detail::PathLeaves& x, Site site);

  const PipelineOptions& options() const { return options_; }
  const PipelineSchedule& schedule() const { return schedule_; }
  bool is_circular() const { return options_.kind == PipelineKind::circular; }
  int64_t layers_of_block() const { return layers_of_block_; }

  // gpipe: (l k),... -> l,k,...; circular: r,(l k),... -> r,l,k,...
  Tensor by_stage(const Tensor& weight) const;
  int64_t stage_axis_of_weights() const { return is_circular() ? 1 : 0; }
  // r,k,... -> k,... of a round, s32[]; gpipe has no r.
  Tensor of_round(const Tensor& weight, const Tensor& round) const;

  // Steps of the loop: s32[t], and where poison is asked for which slots count, pred[t,l].
  Tensor iterations() const;
  std::optional<Tensor> active() const;
  // In an iteration, by stage: pred[l] whether it counts; {number of the block's first layer,
  // micro-batch, round}, s32[l].
  Tensor valid(const Tensor& iteration) const;
  std::vector<Tensor> places(const Tensor& iteration) const;

  // m,... -> t,l,... (gpipe) or m,l,... (circular), with what stage 0 is given in its row.
  Tensor entering(const Tensor& x) const;
  // Zeros l,... like a leaf of x.
  Tensor blank(const Tensor& x) const;
  // l,...: each stage's row is that of the stage before; row 0 is `input`'s.
  Tensor shifted(const Tensor& buffer, const Tensor& input) const;
  // As shifted; row 0 is that of the last stage.
  Tensor rotated(const Tensor& buffer) const;
  // Row 0 of `input`, the other rows of `x`.
  Tensor with_first(const Tensor& x, const Tensor& input) const;
  // `fill` where the stage does not count.
  Tensor guarded(const Tensor& x, const Tensor& valid, double fill) const;
  Tensor poisoned(const Tensor& x, const std::optional<Tensor>& active) const;
  // m,l,... at the micro-batch that stage 0 begins.
  Tensor next_input(const Tensor& ring, const Tensor& iteration) const;
  // m,l,... with what comes back to stage 0 in its place.
  Tensor put_back(const Tensor& ring, const Tensor& rotated, const Tensor& iteration) const;
  // t,l,... (gpipe) or m,l,... (circular) -> m,...
  Tensor leaving(const Tensor& y) const;

  // t,l,k,... of every slot -> sums over the micro-batches: (l k),... or r,(l k),...
  Tensor summed(const Tensor& y) const;

  // l,...: split over the stages; what follows is left to completion. `before`: dims in front.
  Tensor split(const Tensor& x, int64_t before = 0) const;

 private:
  Tensor in_row(int64_t row, int64_t rank) const;
  Tensor microbatch_of(const Tensor& turn) const;

  PipelineOptions options_;
  PipelineSchedule schedule_;
  int64_t layers_of_block_ = 1;
};

template <class Layer, class Weights, class X>
auto call_layer(Layer& layer, const Weights& weights, const X& x,
                const PipelinePlace<Tensor>& place) {
  if constexpr (std::is_invocable_v<Layer&, const Weights&, const X&, const PipelinePlace<Tensor>&>)
    return layer(weights, x, place);
  else
    return layer(weights, x);
}

// {leaf 0 of all trees, stacked, ...}
template <class Tree>
Tree stack_trees(const std::vector<Tree>& trees) {
  size_t leaf = 0;
  return map_tree(trees.at(0), [&](const std::string&, const Tensor&) {
    std::vector<Tensor> parts;
    for (const Tree& tree : trees) parts.push_back(gspmd::detail::tensors_of(tree).at(leaf));
    ++leaf;
    return stack(parts);
  });
}

// The layers of a block one after the other; weights k,... `layer` returns {next x, what is summed
// up}, and so does this, with k in front of the latter. A loop would be made again as a whole for
// its gradient inside of the loop over iterations.
template <class Layer, class Weights, class X>
auto run_block(Layer& layer, const PipelineParts& parts, const Weights& weights, X x,
               const PipelinePlace<Tensor>& first) {
  using Sums = typename std::invoke_result_t<Layer&, const Weights&, const X&,
                                             const PipelinePlace<Tensor>&>::second_type;
  const int64_t layers = parts.layers_of_block();
  if (layers == 1 || !parts.options().remat) {
    std::vector<Sums> each;
    for (int64_t i = 0; i < layers; ++i) {
      const Weights one = map_leaves([&](const Tensor& leaf) { return leaf(i); }, weights);
      auto [next, sums] = layer(one, x, PipelinePlace<Tensor>{first.layer + i, first.microbatch});
      x = std::move(next);
      each.push_back(std::move(sums));
    }
    return std::pair<X, Sums>{x, stack_trees(each)};
  }
  const auto step = [&](const X& carry, const std::pair<Weights, Tensor>& in) {
    return layer(in.first, carry, PipelinePlace<Tensor>{first.layer + in.second, first.microbatch});
  };
  const std::pair<X, Sums> done = scan(step, x, std::pair{weights, arange(layers)});
  return done;
}

using Active = std::optional<Tensor>;

// One iteration: from what arrives at the stages to {what they pass on, what is summed up}.
template <class Stages, class Weights, class X>
auto run_stages(const PipelineParts& parts, Stages& stages, const Weights& weights,
                const X& arriving, const Tensor& iteration, const Active& active) {
  const Tensor valid = parts.valid(iteration);
  const auto guard = [&](double fill) {
    return [&, fill](const Tensor& leaf) {
      return parts.split(parts.guarded(parts.poisoned(leaf, active), valid, fill));
    };
  };
  const auto all = [&](const Weights& w, const X& in, const std::vector<Tensor>& places) {
    return stages(w, in, places);
  };
  const X in = map_leaves(guard(parts.options().idle), arriving);
  const std::vector<Tensor> places = parts.places(iteration);
  const auto out =
      parts.options().remat ? checkpoint(all)(weights, in, places) : all(weights, in, places);
  return std::pair{
      map_leaves(guard(0), out.first),
      map_leaves([&](const Tensor& leaf) { return parts.poisoned(leaf, active); }, out.second)};
}

template <class Stages, class Weights, class X>
auto run_gpipe(const PipelineParts& parts, Stages& stages, const Weights& weights,
               const X& entering, const X& blank) {
  const auto step = [&](const X& buffer, const std::tuple<X, Tensor, Active>& in) {
    const auto& [input, iteration, active] = in;
    const X arriving = map_leaves(
        [&](const Tensor& b, const Tensor& i) { return parts.shifted(b, i); }, buffer, input);
    const auto out = run_stages(parts, stages, weights, arriving, iteration, active);
    return std::pair{out.first, out};
  };
  return scan(step, blank, std::tuple{entering, parts.iterations(), parts.active()}).second;
}

// The ring holds what each micro-batch comes to stage 0 with: at first the input, then the results
// of its rounds.
template <class Stages, class Weights, class X>
auto run_circular(const PipelineParts& parts, Stages& stages, const Weights& weights,
                  const X& entering, const X& blank) {
  const auto step = [&](const std::pair<X, X>& carry, const std::pair<Tensor, Active>& in) {
    const Tensor iteration = in.first;
    const X arriving = map_leaves(
        [&](const Tensor& b, const Tensor& r) {
          return parts.with_first(b, parts.next_input(r, iteration));
        },
        carry.first, carry.second);
    const auto out = run_stages(parts, stages, weights, arriving, iteration, in.second);
    const X rotated =
        map_leaves([&](const Tensor& leaf) { return parts.rotated(leaf); }, out.first);
    const X ring = map_leaves(
        [&](const Tensor& r, const Tensor& b) { return parts.put_back(r, b, iteration); },
        carry.second, rotated);
    return std::pair{std::pair{rotated, ring}, out.second};
  };
  const auto done =
      scan(step, std::pair{blank, entering}, std::pair{parts.iterations(), parts.active()});
  return std::pair{done.first.second, done.second};
}

// `stages`(weights, x, places): all stages at once, {next x, what is summed up}; weights as
// by_stage(), x l,... {x behind the layers, sums over the micro-batches with the weights' dims in
// front}.
template <class Stages, class Weights, class X>
auto run_pipeline(const PipelineParts& parts, Stages stages, const Weights& weights, const X& x) {
  const Weights by_stage = map_leaves([&](const Tensor& w) { return parts.by_stage(w); }, weights);
  const X entering = map_leaves([&](const Tensor& leaf) { return parts.entering(leaf); }, x);
  const X blank = map_leaves([&](const Tensor& leaf) { return parts.blank(leaf); }, x);
  const auto done = parts.is_circular() ? run_circular(parts, stages, by_stage, entering, blank)
                                        : run_gpipe(parts, stages, by_stage, entering, blank);
  return std::pair{map_leaves([&](const Tensor& leaf) { return parts.leaving(leaf); }, done.first),
                   map_leaves([&](const Tensor& leaf) { return parts.summed(leaf); }, done.second)};
}

// All stages at once from a layer for one.
template <class Layer, class Weights, class X>
auto run_vectorized(Layer layer, const Weights& weights, const X& x, const PipelineOptions& options,
                    Site site) {
  const PipelineParts parts(options, flatten(weights), flatten(x), site);
  const auto stage = [&](const Weights& all, const X& in, const std::vector<Tensor>& places) {
    const Weights block =
        map_leaves([&](const Tensor& w) { return parts.of_round(w, places[2]); }, all);
    return run_block(layer, parts, block, in, PipelinePlace<Tensor>{places[0], places[1]});
  };
  VmapOptions by_stage;
  by_stage.in_axes = {parts.stage_axis_of_weights(), 0, 0};
  by_stage.mesh_axis = options.mesh_axis;
  return run_pipeline(parts, vmap(stage, by_stage, site), weights, x);
}

}  // namespace detail

// The layers one after the other, y = layer(weights_0, x), layer(weights_1, y), ..., on each
// micro-batch: x is a tree of [microbatches, ...], and so is the result. The stages are a dim of
// tensors: all of them compute in every iteration of one loop, and a buffer of what they pass on is
// shifted by one (arXiv:2105.04663, 3.3); split over a mesh axis, the shift is one
// collective-permute. `layer` is written for one layer and one micro-batch: layer(weights, x) or
// layer(weights, x, PipelinePlace), which returns a tree like x; annotations inside of it are about
// the other axes of the mesh. `weights`: a tree of [layers, ...]; of circular [rounds, layers /
// rounds, ...], where layer r * (layers / rounds) + i is at (r, i). UserError: sizes that the
// stages do not divide, leaves of other leading dims, and as PipelineSchedule.
template <class Layer, class Weights, class X>
X pipeline(Layer layer, const Weights& weights, const X& x, const PipelineOptions& options,
           Site site = Site::here()) {
  const auto without_sums = [&](const Weights& w, const X& in, const PipelinePlace<Tensor>& place) {
    return std::pair{detail::call_layer(layer, w, in, place), Nothing{}};
  };
  return detail::run_vectorized(without_sums, weights, x, options, site).first;
}

// As pipeline(), of a layer that returns {next x, a tree of tensors}: what it says of its
// micro-batch, as the statistics of a batch norm or an auxiliary loss. Returns {y, the sums over
// the micro-batches by layer}, [layers, ...] or [rounds, layers / rounds, ...] like the weights.
template <class Layer, class Weights, class X>
auto pipeline_with_sums(Layer layer, const Weights& weights, const X& x,
                        const PipelineOptions& options, Site site = Site::here()) {
  const auto with_place = [&](const Weights& w, const X& in, const PipelinePlace<Tensor>& place) {
    return detail::call_layer(layer, w, in, place);
  };
  return detail::run_vectorized(with_place, weights, x, options, site);
}

// As pipeline(), of a layer that is written for all stages at once: weights and x have the stages,
// l, in front, and so have the places, s32[l].
template <class Layer, class Weights, class X>
X pipeline_of_stages(Layer layer, const Weights& weights, const X& x,
                     const PipelineOptions& options, Site site = Site::here()) {
  const auto without_sums = [&](const Weights& w, const X& in, const PipelinePlace<Tensor>& place) {
    return std::pair{detail::call_layer(layer, w, in, place), Nothing{}};
  };
  const detail::PipelineParts parts(options, flatten(weights), flatten(x), site);
  const auto stages = [&](const Weights& all, const X& in, const std::vector<Tensor>& places) {
    VmapOptions axes;
    axes.in_axes = {parts.stage_axis_of_weights(), 0};
    axes.out_axes = 1;  // k,l,...
    const auto pick = [&](const Tensor& w, const Tensor& round) {
      return parts.of_round(w, round);
    };
    const Weights block =
        map_leaves([&](const Tensor& w) { return vmap(pick, axes)(w, places[2]); }, all);
    return detail::run_block(without_sums, parts, block, in,
                             PipelinePlace<Tensor>{places[0], places[1]});
  };
  return detail::run_pipeline(parts, stages, weights, x).first;
}

}  // namespace gspmd::models
