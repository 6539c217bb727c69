#include "passes/shardy/projection.h"

#include <deque>
#include <numeric>

namespace gspmd {
namespace {

// What a factor that is not the last of its dim takes of the axes: gcd of what it still needs and
// each axis, splitting axes, until it is full or nothing in common is left.
FactorSharding take(std::deque<SdyAxis>& axes, int64_t size) {
  FactorSharding taken;
  taken.minor_most = false;
  while (size > 1 && !axes.empty()) {
    SdyAxis& axis = axes.front();
    const int64_t part = std::gcd(size, axis.size);
    if (part == 1 && axis.size > 1) {
      taken.overflow.assign(axes.begin(), axes.end());
      axes.clear();
      break;
    }
    append_axis(taken.axes, {axis.axis, axis.pre, part});
    size /= part;
    if (part == axis.size)
      axes.pop_front();
    else
      axis = {axis.axis, axis.pre * part, axis.size / part};
  }
  return taken;
}

}  // namespace

FactorSharding* TensorProjection::find(int64_t factor) {
  for (auto& [index, sharding] : factors)
    if (index == factor) return &sharding;
  return nullptr;
}

const FactorSharding* TensorProjection::find(int64_t factor) const {
  return const_cast<TensorProjection*>(this)->find(factor);
}

TensorProjection project(const std::optional<SdySharding>& sharding, const SdyRule::Tensor& tensor,
                         const SdyRule& rule) {
  TensorProjection result;
  for (size_t d = 0; d < tensor.size(); ++d) {
    std::deque<SdyAxis> axes;
    bool closed = false;
    if (sharding) {
      const SdyDim& dim = sharding->dims.at(d);
      axes.assign(dim.axes.begin(), dim.axes.end());
      closed = !dim.open;
    }
    for (size_t k = 0; k < tensor[d].size(); ++k) {
      const int64_t factor = tensor[d][k];
      FactorSharding taken;
      if (k + 1 == tensor[d].size())
        taken.axes.assign(axes.begin(), axes.end());
      else
        taken = take(axes, rule.factors.at(static_cast<size_t>(factor)).size);
      taken.closed = closed;
      closed |= !taken.overflow.empty();
      result.factors.emplace_back(factor, std::move(taken));
    }
  }
  if (sharding) {
    result.reserved = sharding->replicated;
    result.reserved.insert(result.reserved.end(), sharding->unreduced.begin(),
                           sharding->unreduced.end());
  }
  return result;
}

std::vector<SdyAxes> project_back(const TensorProjection& projection, const SdyRule::Tensor& tensor,
                                  const SdyRule& rule) {
  std::vector<SdyAxes> dims;
  size_t next = 0;
  for (const std::vector<int64_t>& dim : tensor) {
    SdyAxes& axes = dims.emplace_back();
    bool stopped = false;
    for (const int64_t factor : dim) {
      const FactorSharding& part = projection.factors.at(next++).second;
      if (stopped) continue;
      for (const SdyAxis& axis : part.axes) append_axis(axes, axis);
      for (const SdyAxis& axis : part.overflow) append_axis(axes, axis);
      stopped = !part.overflow.empty() ||
                shard_count(part.axes) < rule.factors.at(static_cast<size_t>(factor)).size;
    }
  }
  return dims;
}

}  // namespace gspmd
