#include "passes/shardy/strategy.h"

#include <algorithm>
#include <numeric>

namespace gspmd {
namespace {

// The axes that tensors agree on so far along a factor.
struct Agreed {
  SdyAxes axes;
  bool lengthens = true;  // no disagreement so far

  // Another tensor's axes; `may_lengthen`: it is one that the others may learn from.
  void hear(const SdyAxes& other, bool may_lengthen) {
    size_t i = 0;
    while (i < axes.size() && i < other.size() && axes[i] == other[i]) ++i;
    if (i == other.size()) return;
    const bool takes_more = lengthens && may_lengthen;
    const bool last_here = i + 1 == axes.size(), last_there = i + 1 == other.size();
    if (i == axes.size()) {
      if (takes_more) axes = other;
    } else if (is_prefix(axes[i], other[i]) && last_here) {
      if (takes_more) axes = other;
    } else if (is_prefix(other[i], axes[i]) && last_there) {
      return;
    } else {
      const bool shorter_here = is_prefix(axes[i], other[i]);
      const bool shorter_there = is_prefix(other[i], axes[i]);
      if (shorter_there) axes[i] = other[i];
      axes.resize(shorter_here || shorter_there ? i + 1 : i);
      lengthens = false;
    }
  }
};

// The leading part of an axis with `size` parts; nullopt: less than two.
std::optional<SdyAxis> leading(const SdyAxis& axis, int64_t size) {
  if (size <= 1 || axis.size % size != 0) return std::nullopt;
  return SdyAxis{axis.axis, axis.pre, size};
}

// What a tensor can take of `axis` along a factor that `before` parts precede.
std::optional<SdyAxis> fit_within(const SdyAxis& axis, const TensorProjection& tensor,
                                  const FactorSharding& factor, int64_t before, int64_t size) {
  std::optional<SdyAxis> fit = axis;
  for (const SdyAxis& reserved : tensor.reserved) {
    fit = prefix_without(*fit, reserved);
    if (!fit) return std::nullopt;
  }
  const int64_t present = shard_count(factor.axes);
  if (saturating_multiply(before, fit->size) <= present) return fit;
  if (factor.closed || !factor.overflow.empty())
    return present % before == 0 ? leading(*fit, present / before) : std::nullopt;
  if (factor.minor_most) return fit;
  if (size % before != 0) return std::nullopt;
  const int64_t part = std::gcd(size / before, fit->size);
  return part == fit->size ? fit : leading(*fit, part);
}

// What of `axis` the other factors of a tensor do not use.
std::optional<SdyAxis> fit_across(const SdyAxis& axis, const TensorProjection& tensor,
                                  int64_t factor) {
  std::optional<SdyAxis> fit = axis;
  for (const auto& [other, sharding] : tensor.factors) {
    if (other == factor) continue;
    for (const SdyAxes* axes : {&sharding.axes, &sharding.overflow})
      for (const SdyAxis& used : *axes) {
        fit = prefix_without(*fit, used);
        if (!fit) return std::nullopt;
      }
  }
  return fit;
}

// Cuts the list at the first axis that does not fit whole, keeping what fits of it.
template <class Fit>
void cut(SdyAxes& axes, bool conservative, Fit fit) {
  int64_t before = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const std::optional<SdyAxis> part = fit(axes[i], before);
    if (part == axes[i]) {
      before = saturating_multiply(before, axes[i].size);
      continue;
    }
    axes.resize(part && !conservative ? i + 1 : i);
    if (part && !conservative) axes[i] = *part;
    return;
  }
}

void cut_within(SdyAxes& axes, const TensorProjection& tensor, int64_t factor,
                const SdyStep& step) {
  const FactorSharding* sharding = tensor.find(factor);
  if (sharding == nullptr) return;
  const int64_t size = step.rule.factors.at(static_cast<size_t>(factor)).size;
  cut(axes, step.conservative, [&](const SdyAxis& axis, int64_t before) {
    return fit_within(axis, tensor, *sharding, before, size);
  });
}

void cut_across(SdyAxes& axes, const TensorProjection& tensor, int64_t factor,
                const SdyStep& step) {
  cut(axes, step.conservative,
      [&](const SdyAxis& axis, int64_t) { return fit_across(axis, tensor, factor); });
}

// Who says the agreed axes of a factor, which orders factors.
struct FactorSource {
  int64_t factor = 0;
  int64_t elements = 0;  // of the largest tensor that begins with the agreed axes
  int64_t parts = 1;     // of the agreed axes
  size_t tensor = 0;     // its number, operands first
};

int64_t elements_of(const TensorProjection& tensor, const SdyRule& rule) {
  int64_t elements = 1;
  for (const auto& [factor, sharding] : tensor.factors)
    elements = saturating_multiply(elements, rule.factors.at(static_cast<size_t>(factor)).size);
  return elements;
}

// Factors that have something to say, those of larger tensors first.
std::vector<FactorSource> sources_of(const Projection& projection,
                                     const std::vector<SdyAxes>& agreed, const SdyStep& step) {
  std::vector<FactorSource> sources;
  for (size_t f = 0; f < agreed.size(); ++f) {
    if (agreed[f].empty()) continue;
    FactorSource source{static_cast<int64_t>(f), -1, step.elementwise ? shard_count(agreed[f]) : 1,
                        0};
    for (size_t t = 0; t < projection.tensors.size(); ++t) {
      const FactorSharding* sharding = projection.tensors[t].find(source.factor);
      if (sharding == nullptr || !is_prefix(agreed[f], sharding->axes)) continue;
      const int64_t elements = elements_of(projection.tensors[t], step.rule);
      if (elements <= source.elements) continue;
      source.elements = elements;
      source.tensor = t;
    }
    sources.push_back(source);
  }
  std::stable_sort(sources.begin(), sources.end(),
                   [](const FactorSource& a, const FactorSource& b) {
                     if (a.elements != b.elements) return a.elements > b.elements;
                     if (a.parts != b.parts) return a.parts > b.parts;
                     return a.tensor < b.tensor;
                   });
  return sources;
}

// An elementwise operand gets no more than a result has.
void limit_to_results(SdyAxes& axes, const Projection& projection, int64_t factor) {
  for (size_t t = projection.operands; t < projection.tensors.size(); ++t) {
    const FactorSharding* result = projection.tensors[t].find(factor);
    if (result != nullptr && is_strict_prefix(result->axes, axes)) axes = result->axes;
  }
}

bool update_tensor(Projection& projection, size_t tensor, const std::vector<FactorSource>& sources,
                   const std::vector<SdyAxes>& agreed, const SdyStep& step) {
  TensorProjection& target = projection.tensors[tensor];
  bool updated = false;
  for (const FactorSource& source : sources) {
    FactorSharding* sharding = target.find(source.factor);
    if (sharding == nullptr) continue;
    SdyAxes axes = agreed[static_cast<size_t>(source.factor)];
    cut_within(axes, target, source.factor, step);
    if (!is_strict_prefix(sharding->axes, axes)) continue;
    cut_across(axes, target, source.factor, step);
    if (step.elementwise && projection.is_operand(tensor))
      limit_to_results(axes, projection, source.factor);
    if (!is_strict_prefix(sharding->axes, axes)) continue;
    sharding->axes = std::move(axes);
    updated = true;
  }
  return updated;
}

}  // namespace

SdyAxes compatible_axes(const Projection& projection, int64_t factor, SdyDirection direction) {
  if (direction == SdyDirection::none) return {};
  Agreed agreed;
  for (size_t t = 0; t < projection.tensors.size(); ++t) {
    const FactorSharding* sharding = projection.tensors[t].find(factor);
    if (sharding == nullptr) continue;
    const SdyDirection closed_to =
        projection.is_operand(t) ? SdyDirection::backward : SdyDirection::forward;
    agreed.hear(sharding->axes, direction != closed_to);
  }
  return agreed.axes;
}

std::vector<bool> propagate_basic(Projection& projection, const SdyStep& step) {
  std::vector<bool> updated(projection.tensors.size());
  for (size_t f = 0; f < step.rule.factors.size(); ++f) {
    const auto factor = static_cast<int64_t>(f);
    SdyAxes axes = compatible_axes(projection, factor, step.directions.at(f));
    for (const TensorProjection& tensor : projection.tensors) {
      if (axes.empty()) break;
      cut(axes, step.conservative, [&](const SdyAxis& axis, int64_t before) {
        std::optional<SdyAxis> fit = fit_across(axis, tensor, factor);
        const FactorSharding* sharding = tensor.find(factor);
        if (fit && sharding != nullptr)
          fit = fit_within(*fit, tensor, *sharding, before, step.rule.factors[f].size);
        return fit;
      });
    }
    for (size_t t = 0; t < projection.tensors.size(); ++t) {
      FactorSharding* sharding = projection.tensors[t].find(factor);
      if (sharding == nullptr || !is_strict_prefix(sharding->axes, axes)) continue;
      sharding->axes = axes;
      updated[t] = true;
    }
  }
  return updated;
}

std::vector<bool> propagate_aggressive(Projection& projection, const SdyStep& step) {
  std::vector<bool> updated(projection.tensors.size());
  std::vector<SdyAxes> agreed;
  for (size_t f = 0; f < step.rule.factors.size(); ++f)
    agreed.push_back(compatible_axes(projection, static_cast<int64_t>(f), step.directions.at(f)));
  const std::vector<FactorSource> sources = sources_of(projection, agreed, step);
  if (sources.empty()) return updated;
  for (size_t t = projection.operands; t < projection.tensors.size(); ++t)
    updated[t] = update_tensor(projection, t, sources, agreed, step);
  for (size_t t = 0; t < projection.operands; ++t)
    updated[t] = update_tensor(projection, t, sources, agreed, step);
  return updated;
}

}  // namespace gspmd
