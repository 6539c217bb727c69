#include <algorithm>
#include <numeric>

#include "ops/sdy_rules/rule_builder.h"

namespace gspmd {
namespace {

// Where the walk over the dims of one shape stands.
struct Walk {
  const Dims& dims;
  size_t at = 0;
  int64_t rest = 1;     // of the current dim
  int64_t product = 1;  // of all that was begun

  // To the next dim of more than one element; whether there is one.
  bool next() {
    while (at < dims.size() && dims[at] == 1) ++at;
    if (at == dims.size()) return false;
    rest = dims[at];
    product *= rest;
    return true;
  }
  void done() {
    ++at;
    rest = 1;
  }
};

}  // namespace

// Both shapes at once: what the current dims have in common is a factor of both. Where they have
// nothing in common their elements interleave until both walks have seen equally many.
std::optional<SdyRule> reshape_sdy_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  Walk in{builder.operand(0)}, out{builder.result()};
  if (std::find(in.dims.begin(), in.dims.end(), 0) != in.dims.end()) return std::nullopt;
  const auto here = [](const Walk& walk) { return static_cast<int64_t>(walk.at); };
  const auto own_in = [&] { builder.add({here(in)}, {}, in.rest), in.done(); };
  const auto own_out = [&] { builder.add({}, {here(out)}, out.rest), out.done(); };
  while (true) {
    if (in.rest == 1 && !in.next()) break;
    if (out.rest == 1 && !out.next()) break;
    const int64_t common = std::gcd(in.rest, out.rest);
    if (common > 1) {
      builder.add({here(in)}, {here(out)}, common);
      in.rest /= common;
      out.rest /= common;
      if (in.rest == 1) in.done();
      if (out.rest == 1) out.done();
      continue;
    }
    own_in();
    own_out();
    while (in.product != out.product) {
      const bool in_lags = in.product < out.product;
      if (!(in_lags ? in : out).next()) break;
      in_lags ? own_in() : own_out();
    }
  }
  return builder.build();
}

}  // namespace gspmd
