#include "models/pipeline.h"

#include <fmt/format.h>

namespace gspmd::models {

Tensor to_microbatches(const Tensor& x, int64_t n, Site site) {
  if (x.rank() < 1 || n < 1 || x.dim(0) % n != 0)
    user_error(site,
               "pipeline: {} microbatches do not divide the {} rows of the batch; choose a "
               "divisor",
               n, x.rank() < 1 ? 0 : x.dim(0));
  Dims dims = x.dims();
  dims.front() /= n;
  dims.insert(dims.begin() + 1, n);
  std::vector<int64_t> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = int64_t(i);
  std::swap(order[0], order[1]);
  return transpose(reshape(x, dims), order);
}

Tensor from_microbatches(const Tensor& x) {
  std::vector<int64_t> order(x.dims().size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = int64_t(i);
  std::swap(order[0], order[1]);
  Dims dims = x.dims();
  dims.erase(dims.begin());
  dims.front() *= x.dim(0);
  return reshape(transpose(x, order), dims);
}

namespace detail {
namespace {

using gspmd::detail::PathLeaves;

// The dims in front of all weights: layers, or rounds and layers of each.
Dims leading_dims(const PipelineOptions& options, const PathLeaves& weights, Site site) {
  const bool circular = options.kind == PipelineKind::circular;
  if (weights.empty()) user_error(site, "pipeline: there are no weights to take layers from");
  if (options.stages < 1)
    user_error(site, "pipeline: stages is {}; it must be at least 1", options.stages);
  const size_t leading = circular ? 2 : 1;
  Dims first;
  for (const auto& [path, leaf] : weights) {
    const Dims& dims = leaf.dims(site);
    if (dims.size() < leading)
      user_error(site, "pipeline: the weight \"{}\" is {}; {}", path, to_string(leaf.shape(site)),
                 circular ? "circular weights are [rounds, layers / rounds, ...]"
                          : "weights are [layers, ...]");
    const Dims mine(dims.begin(), dims.begin() + std::ptrdiff_t(leading));
    if (first.empty()) first = mine;
    if (mine != first)
      user_error(site,
                 "pipeline: the weight \"{}\" is {}, but \"{}\" begins with [{}]; all weights have "
                 "the same layers in front",
                 path, to_string(leaf.shape(site)), weights.front().first, fmt::join(first, ","));
  }
  if (first.back() < 1 || first.back() % options.stages != 0)
    user_error(site,
               "pipeline: {} stages do not divide the {} layers{}; choose a divisor, or equal "
               "parts by partition_stages()",
               options.stages, first.back(), circular ? " of a round" : "");
  return first;
}

int64_t microbatches_of(const PathLeaves& x, Site site) {
  if (x.empty()) user_error(site, "pipeline: x has no tensors");
  for (const auto& [path, leaf] : x) {
    const Dims& dims = leaf.dims(site);
    const int64_t wanted = x.front().second.rank(site) < 1 ? -1 : x.front().second.dim(0, site);
    if (dims.empty() || dims[0] != wanted)
      user_error(site,
                 "pipeline: x{}{} is {}; every leaf is [microbatches, ...] with the same number "
                 "of micro-batches",
                 path.empty() ? "" : ".", path, to_string(leaf.shape(site)));
  }
  return x.front().second.dim(0, site);
}

PipelineSizes sizes_of(const PipelineOptions& options, const PathLeaves& weights,
                       const PathLeaves& x, Site site) {
  const Dims leading = leading_dims(options, weights, site);
  return {options.kind, options.stages, microbatches_of(x, site),
          options.kind == PipelineKind::circular ? leading.front() : 1};
}

// [n] -> [n,1,1,...] of a rank.
Tensor to_rank(const Tensor& x, int64_t rank) {
  Dims dims(size_t(rank), 1);
  dims.at(0) = x.dim(0);
  return reshape(x, dims);
}

}  // namespace

PipelineParts::PipelineParts(const PipelineOptions& options, const PathLeaves& weights,
                             const PathLeaves& x, Site site)
    : options_(options), schedule_(sizes_of(options, weights, x, site), site) {
  layers_of_block_ = leading_dims(options, weights, site).back() / options.stages;
}

Tensor PipelineParts::split(const Tensor& x, int64_t before) const {
  if (options_.mesh_axis.empty()) return x;
  std::vector<DimSplit> dims(size_t(x.rank()), DimSplit(open_dim));
  dims.at(size_t(before)) = DimSplit(options_.mesh_axis);
  return mesh_split(x, options_.mesh, SplitDims(dims));
}

Tensor PipelineParts::by_stage(const Tensor& weight) const {
  const int64_t axis = stage_axis_of_weights();
  const Tensor whole = split(weight, axis);
  Dims dims = whole.dims();
  dims[size_t(axis)] = layers_of_block_;
  dims.insert(dims.begin() + axis, options_.stages);
  return split(reshape(whole, dims), axis);
}

Tensor PipelineParts::of_round(const Tensor& weight, const Tensor& round) const {
  if (!is_circular()) return weight;
  // Selects and no look-up: their gradient is added to the sums element by element, where that of a
  // look-up is scattered first.
  Tensor chosen = weight(0);
  for (int64_t r = 1; r < schedule_.sizes().rounds; ++r)
    chosen = where(equal(round, r), weight(r), chosen);
  return chosen;
}

Tensor PipelineParts::iterations() const { return arange(schedule_.iterations()); }

std::optional<Tensor> PipelineParts::active() const {
  if (!options_.poison) return std::nullopt;
  Array table(DType::pred, {schedule_.iterations(), options_.stages});
  for (int64_t i = 0; i < schedule_.iterations(); ++i)
    for (int64_t s = 0; s < options_.stages; ++s)
      table.set(i * options_.stages + s, schedule_.at(i, s).has_value());
  return constant(table);
}

Tensor PipelineParts::valid(const Tensor& iteration) const {
  const PipelineSizes& sizes = schedule_.sizes();
  const Tensor turn = iteration - arange(sizes.stages);
  return logical_and(turn >= 0, turn < sizes.rounds * sizes.microbatches);
}

std::vector<Tensor> PipelineParts::places(const Tensor& iteration) const {
  const PipelineSizes& sizes = schedule_.sizes();
  const Tensor stage = arange(sizes.stages);
  const Tensor turn = clamp(0, iteration - stage, sizes.rounds * sizes.microbatches - 1);
  const Tensor round = turn / sizes.microbatches;
  const Tensor layer = (round * sizes.stages + stage) * layers_of_block_;
  return {layer, turn - round * sizes.microbatches, round};
}

Tensor PipelineParts::entering(const Tensor& x) const {
  Dims dims = x.dims();
  dims.insert(dims.begin() + 1, options_.stages);
  Tensor rows = where(in_row(0, int64_t(dims.size())), broadcast_to(expand_dims(x, 1), dims),
                      zeros(Shape(x.dtype(), dims)));
  if (!is_circular()) {
    std::vector<PaddingDim> padding(dims.size());
    padding[0].high = options_.stages - 1;
    rows = pad(rows, padding);
  }
  return split(rows, 1);
}

Tensor PipelineParts::blank(const Tensor& x) const {
  Dims dims = x.dims();
  dims[0] = options_.stages;
  return split(zeros(Shape(x.dtype(), dims)));
}

Tensor PipelineParts::with_first(const Tensor& x, const Tensor& input) const {
  return where(equal(to_rank(arange(options_.stages), x.rank()), 0), input, x);
}

Tensor PipelineParts::shifted(const Tensor& buffer, const Tensor& input) const {
  std::vector<PaddingDim> by_one(buffer.dims().size());
  by_one[0] = {1, -1, 0};
  return with_first(pad(buffer, by_one), input);
}

Tensor PipelineParts::rotated(const Tensor& buffer) const { return roll(buffer, 1, 0); }

Tensor PipelineParts::guarded(const Tensor& x, const Tensor& valid, double fill) const {
  return where(to_rank(valid, x.rank()), x, full(x.shape(), fill));
}

Tensor PipelineParts::poisoned(const Tensor& x, const std::optional<Tensor>& active) const {
  if (!active || !is_floating(x.dtype())) return x;
  return where(to_rank(*active, x.rank()), x, full(x.shape(), *options_.poison));
}

Tensor PipelineParts::microbatch_of(const Tensor& turn) const {
  return remainder(turn, schedule_.sizes().microbatches);
}

Tensor PipelineParts::next_input(const Tensor& ring, const Tensor& iteration) const {
  Dims one = ring.dims();
  one[0] = 1;
  std::vector<Operand> starts(one.size(), Operand(zeros(Shape(DType::s32, {}))));
  starts[0] = microbatch_of(iteration);
  return squeeze(dynamic_slice(ring, starts, one), 0);
}

Tensor PipelineParts::put_back(const Tensor& ring, const Tensor& rotated,
                               const Tensor& iteration) const {
  // Before the last stage has computed anything the place is that of micro-batch 0, whose input
  // stage 0 has just taken.
  const Tensor turn = maximum(iteration - (options_.stages - 1), 0);
  std::vector<Operand> starts(ring.dims().size(), Operand(zeros(Shape(DType::s32, {}))));
  starts[0] = microbatch_of(turn);
  return split(dynamic_update_slice(ring, expand_dims(rotated, 0), starts), 1);
}

Tensor PipelineParts::leaving(const Tensor& y) const {
  const int64_t last = options_.stages - 1;
  const Tensor rows = is_circular() ? y : slice_dim(y, 0, last, y.dim(0));
  // A sum over the stages and no slice: what one device has, all need, and their cotangents go to
  // that one only.
  return sum(where(in_row(is_circular() ? 0 : last, rows.rank()), rows, zeros_like(rows)),
             {.axes = 1});
}

Tensor PipelineParts::summed(const Tensor& y) const {
  const PipelineSizes& sizes = schedule_.sizes();
  const Tensor steps = expand_dims(iterations(), 1);
  const Tensor here = valid(steps), round = places(steps)[2];  // t,l
  Dims front(size_t(y.rank()), 1);
  front[0] = y.dim(0);
  front[1] = sizes.stages;
  Dims dims(y.dims().begin() + 2, y.dims().end());
  dims[0] *= sizes.stages;
  std::vector<Tensor> rounds;
  for (int64_t r = 0; r < sizes.rounds; ++r) {
    const Tensor counts = reshape(logical_and(here, equal(round, r)), front);
    rounds.push_back(reshape(sum(where(counts, y, zeros_like(y)), {.axes = 0}), dims));
  }
  return is_circular() ? stack(rounds) : rounds.front();
}

// pred[1,l,1,...] of a rank.
Tensor PipelineParts::in_row(int64_t row, int64_t rank) const {
  Dims dims(size_t(rank), 1);
  dims.at(1) = options_.stages;
  return equal(reshape(arange(options_.stages), dims), row);
}

}  // namespace detail
}  // namespace gspmd::models
