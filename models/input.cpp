#include "models/input.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gspmd::models {
namespace {

void check(int64_t examples, int64_t batch, const HostPart& part) {
  if (examples < 1) user_error("input: there are {} examples; give at least one", examples);
  if (batch < 1) user_error("input: the batch is {}; it must be at least 1", batch);
  if (part.hosts < 1 || part.host < 0 || part.host >= part.hosts)
    user_error("input: host {} of {} is none; hosts are 0 to one less than their number", part.host,
               part.hosts);
  if (batch % part.hosts != 0)
    user_error("input: {} hosts do not divide the batch of {}; choose a multiple", part.hosts,
               batch);
}

// This host's rows of a whole batch.
std::vector<int64_t> part_of(const std::vector<int64_t>& rows, const HostPart& part) {
  const int64_t each = static_cast<int64_t>(rows.size()) / part.hosts;
  const auto begin = rows.begin() + part.host * each;
  return {begin, begin + each};
}

}  // namespace

Array scaled(Array values, double factor) {
  if (values.dtype() == DType::f64)
    for (double& x : values.data<double>()) x *= factor;
  else
    for (float& x : values.data<float>()) x = static_cast<float>(x * factor);
  return values;
}

std::vector<int64_t> random_order(int64_t n, uint32_t seed, int64_t stream) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  const Array uniform = random_uniform_array(Shape(DType::f64, {n}), seed, stream);
  for (int64_t i = n - 1; i > 0; --i) {
    const auto other = std::min(i, static_cast<int64_t>(uniform.at(i) * double(i + 1)));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(other)]);
  }
  return order;
}

EpochOrder::EpochOrder(int64_t examples, int64_t batch, uint32_t seed, HostPart part)
    : examples_(examples), batch_(batch), seed_(seed), part_(part) {
  check(examples, batch, part);
}

int64_t EpochOrder::example(int64_t position) const {
  const int64_t epoch = position / examples_;
  if (epoch != epoch_) order_ = random_order(examples_, seed_, epoch);
  epoch_ = epoch;
  return order_[static_cast<size_t>(position % examples_)];
}

std::vector<int64_t> EpochOrder::rows(int64_t step) const {
  const int64_t each = batch_ / part_.hosts;
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < each; ++i) rows.push_back(example(step * batch_ + part_.host * each + i));
  return rows;
}

LengthBuckets::LengthBuckets(std::vector<int64_t> lengths, std::vector<int64_t> bounds,
                             int64_t batch, uint32_t seed, HostPart part)
    : lengths_(std::move(lengths)),
      bounds_(std::move(bounds)),
      batch_(batch),
      seed_(seed),
      part_(part) {
  check(static_cast<int64_t>(lengths_.size()), batch, part);
  if (bounds_.empty()) user_error("input: there are no buckets; give the lengths that they hold");
  for (size_t i = 1; i < bounds_.size(); ++i)
    if (bounds_[i] <= bounds_[i - 1])
      user_error("input: bucket {} is of length {}, the one before of {}; lengths must rise", i,
                 bounds_[i], bounds_[i - 1]);
  for (size_t i = 0; i < lengths_.size(); ++i)
    if (lengths_[i] > bounds_.back())
      user_error(
          "input: example {} has length {}, the last bucket holds {}; cut it, or add a bucket", i,
          lengths_[i], bounds_.back());
}

std::vector<LengthBuckets::Batch> LengthBuckets::epoch(int64_t number) const {
  std::vector<std::vector<int64_t>> open(bounds_.size());
  std::vector<Batch> batches;
  const auto close = [&](size_t bucket) {
    open[bucket].resize(static_cast<size_t>(batch_), -1);
    batches.push_back({bounds_[bucket], part_of(open[bucket], part_)});
    open[bucket].clear();
  };
  for (const int64_t i : random_order(static_cast<int64_t>(lengths_.size()), seed_, number)) {
    const auto bound =
        std::lower_bound(bounds_.begin(), bounds_.end(), lengths_[static_cast<size_t>(i)]);
    const auto bucket = static_cast<size_t>(bound - bounds_.begin());
    open[bucket].push_back(i);
    if (static_cast<int64_t>(open[bucket].size()) == batch_) close(bucket);
  }
  for (size_t bucket = 0; bucket < open.size(); ++bucket)
    if (!open[bucket].empty()) close(bucket);
  return batches;
}

}  // namespace gspmd::models
