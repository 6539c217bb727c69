#include "mesh/device_terms.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include "mesh/digit_tools.h"

namespace gspmd {
namespace {

// The steps as digits of the rank, major first.
Digits step_digits(DeviceOrder order) {
  Digits digits;
  int64_t stride = order->count;
  for (const DeviceStep& s : order->steps) digits.push_back({s.size, stride /= s.size});
  return digits;
}

// A digit of the rank that is a part of one step, and where that step leads.
struct Part {
  Digit digit;
  int64_t step = 1;
};

// The whole rank in parts that `digits` are made of, major first.
std::optional<std::vector<Part>> parts_of(DeviceOrder order, const Digits& digits) {
  if (!order->counts()) return std::nullopt;
  const Digits steps = step_digits(order);
  const std::optional<Digits> atoms = common_atoms(std::vector<Digits>{steps, digits});
  if (!atoms) return std::nullopt;
  std::vector<Part> parts;
  for (size_t i = 0; i < steps.size(); ++i)
    for (const Digit& atom : split_into({steps[i]}, *atoms))
      parts.push_back({atom, order->steps[i].step * (atom.stride / steps[i].stride)});
  return parts;
}

// What a step of the digit of the rank adds to the tile index; 0 for what `digits` do not read.
int64_t weight_of(const Digit& part, const Digits& digits) {
  int64_t weight = tile_count(digits);
  for (const Digit& digit : digits) {
    weight /= digit.size;
    if (part.stride >= digit.stride && part.stride < digit.stride * digit.size)
      return weight * (part.stride / digit.stride);
  }
  return 0;
}

void make_canonical(std::vector<DeviceFunction::Term>& terms) {
  std::sort(terms.begin(), terms.end(),
            [](const auto& a, const auto& b) { return a.step > b.step; });
  std::vector<DeviceFunction::Term> joined;
  for (const DeviceFunction::Term& term : terms) {
    if (term.size == 1) continue;
    const bool continues = !joined.empty() && joined.back().step == term.step * term.size &&
                           joined.back().weight == term.weight * term.size;
    if (continues)
      joined.back() = {joined.back().size * term.size, term.step, term.weight};
    else
      joined.push_back(term);
  }
  terms = std::move(joined);
}

std::optional<DeviceFunction> function_of(
    DeviceOrder order, const Digits& digits,
    const std::function<int64_t(const Part& part, int64_t weight)>& weigh) {
  const auto parts = parts_of(order, digits);
  if (!parts) return std::nullopt;
  DeviceFunction function{order->least, 0, {}};
  for (const Part& part : *parts) {
    int64_t weight = weigh(part, weight_of(part.digit, digits));
    if (part.step < 0) {
      function.base += weight * (part.digit.size - 1);
      weight = -weight;
    }
    function.terms.push_back({part.digit.size, std::abs(part.step), weight});
  }
  make_canonical(function.terms);
  return function;
}

}  // namespace

std::optional<DeviceFunction> tile_function(DeviceOrder order, const Digits& digits) {
  return function_of(order, digits, [](const Part&, int64_t weight) { return weight; });
}

std::optional<DeviceFunction> devices_of_order(DeviceOrder order) {
  return function_of(order, {}, [](const Part&, int64_t) { return 0; });
}

std::optional<DeviceFunction> group_function(DeviceOrder order, const Digits& digits) {
  auto function = function_of(order, digits, [](const Part& part, int64_t weight) {
    return weight == 0 ? 0 : part.step;  // of one sign, so that neighbours are joined
  });
  if (function) function->base = 0;
  return function;
}

std::optional<Digits> digits_of(const DeviceFunction& function, DeviceOrder order) {
  if (!order->counts() || function.least != order->least) return std::nullopt;
  Digits steps, terms;  // of the devices
  for (const DeviceOrderValue::Place& place : order->places)
    steps.push_back({place.size, place.step});
  for (const DeviceFunction::Term& term : function.terms) terms.push_back({term.size, term.step});
  const std::optional<Digits> atoms = common_atoms(std::vector<Digits>{steps, terms});
  if (!atoms) return std::nullopt;
  std::vector<std::pair<int64_t, Digit>> found;  // by weight
  int64_t base = function.base, held = 0;
  for (const DeviceOrderValue::Place& place : order->places)
    for (const Digit& atom : split_into({{place.size, place.step}}, *atoms)) {
      const auto term = std::find_if(function.terms.begin(), function.terms.end(), [&](auto& t) {
        return atom.stride >= t.step && atom.stride < t.step * t.size;
      });
      if (term == function.terms.end()) return std::nullopt;
      held += atom.stride * (atom.size - 1);
      int64_t weight = term->weight * (atom.stride / term->step);
      if (weight == 0) continue;
      if (place.turned) {
        base += weight * (atom.size - 1);
        weight = -weight;
      }
      if (weight < 0) return std::nullopt;
      found.push_back({weight, {atom.size, place.stride * (atom.stride / place.step)}});
    }
  for (const DeviceFunction::Term& term : function.terms) held -= term.step * (term.size - 1);
  if (base != 0 || held != 0) return std::nullopt;
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  Digits digits;
  int64_t below = 1;
  for (size_t i = found.size(); i-- > 0; below *= found[i].second.size)
    if (found[i].first != below) return std::nullopt;
  for (const auto& [weight, digit] : found) digits.push_back(digit);
  return canonical(std::move(digits));
}

std::optional<Digits> device_digits(DeviceOrder order, const Digits& sequence) {
  if (order->is_iota()) return sequence;
  if (!order->counts() || order->first != 0 || order->last() != order->count - 1)
    return std::nullopt;
  const auto parts = parts_of(order, sequence);
  if (!parts) return std::nullopt;
  Digits digits;
  for (const Digit& digit : sequence)
    for (const Part& part : *parts)
      if (weight_of(part.digit, {digit}) != 0) digits.push_back({part.digit.size, part.step});
  return digits;
}

std::vector<int64_t> ids_in_text(DeviceOrder order) {
  return order->is_iota() ? std::vector<int64_t>() : order->devices();
}

DeviceOrder turned_order(DeviceOrder order, const Digits& turned, int64_t most) {
  if (const auto parts = parts_of(order, turned)) {
    int64_t first = order->first;
    std::vector<DeviceStep> steps;
    for (const Part& part : *parts) {
      const bool turns = weight_of(part.digit, turned) != 0;
      if (turns) first += (part.digit.size - 1) * part.step;
      steps.push_back({part.digit.size, turns ? -part.step : part.step});
    }
    return stepped_order(first, std::move(steps));
  }
  if (order->count > most) return nullptr;
  std::vector<int64_t> devices;
  for (int64_t rank = 0; rank < order->count; ++rank) {
    int64_t other = rank;
    for (const Digit& digit : turned)
      other += (digit.size - 1 - 2 * (rank / digit.stride % digit.size)) * digit.stride;
    devices.push_back(order->device(other));
  }
  return list_order(std::move(devices));
}

DeviceOrder order_along(DeviceOrder order, const Digits& sequence) {
  if (const auto parts = parts_of(order, sequence)) {
    std::vector<DeviceStep> steps;
    for (const Digit& digit : sequence) {
      std::vector<DeviceStep> of_digit;
      for (const Part& part : *parts)
        if (weight_of(part.digit, {digit}) != 0) of_digit.push_back({part.digit.size, part.step});
      steps.insert(steps.end(), of_digit.begin(), of_digit.end());
    }
    return stepped_order(order->first, std::move(steps));
  }
  // A list is as long as there are devices: made once.
  static std::mutex mutex;
  static auto* const known = new std::map<std::pair<DeviceOrder, Digits>, DeviceOrder>;
  const std::lock_guard lock(mutex);
  DeviceOrder& found = (*known)[{order, sequence}];
  if (found) return found;
  std::vector<int64_t> devices = ranks_in_order(sequence);
  for (int64_t& device : devices) device = order->device(device);
  return found = list_order(std::move(devices));
}

}  // namespace gspmd
