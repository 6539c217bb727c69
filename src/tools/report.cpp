#include "tools/report.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "gspmd/ir/module.h"
#include "tools/streams.h"

namespace gspmd::tools {
namespace {

constexpr int64_t kMaxJsonElements = 65536;
constexpr int64_t kShownElements = 64;

// "data,model", or the digits of the device number that a group runs over: "(4,1)" is size, stride.
std::string axes_text(const CollectiveStats& c) {
  if (!c.axes.empty()) return c.axes;
  std::string text;
  for (const Digit& digit : c.digits)
    text += fmt::format("{}({},{})", text.empty() ? "" : " ", digit.size, digit.stride);
  return text;
}

const Sharding* first_leaf(const Sharding& sharding) {
  if (!sharding.is_tuple()) return &sharding;
  for (const Sharding& element : sharding.elements())
    if (element.mesh()) return &element;
  return nullptr;
}

}  // namespace

std::shared_ptr<const Mesh> mesh_of(const Module& module) {
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) {
      if (!node->sharding) continue;
      const Sharding* const leaf = first_leaf(*node->sharding);
      if (leaf != nullptr && leaf->mesh()) return leaf->mesh();
    }
  return nullptr;
}

void print_json(const Json& value) {
  write_output(value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json to_json(const std::vector<CollectiveStats>& collectives) {
  Json list = Json::array();
  for (const CollectiveStats& c : collectives)
    list.push_back({{"kind", c.kind},
                    {"count", c.count},
                    {"sites", c.sites},
                    {"bytes", c.bytes},
                    {"groups", c.groups},
                    {"op", c.instruction},
                    {"name", c.op},
                    {"source", c.source},
                    {"axes", axes_text(c)},
                    {"phase", c.backward ? "backward" : "forward"}});
  return list;
}

Json to_json(const std::vector<FullRematerialization>& all) {
  Json list = Json::array();
  for (const FullRematerialization& r : all)
    list.push_back({{"tensor", r.tensor},
                    {"shape", r.shape},
                    {"from", r.from},
                    {"to", r.to},
                    {"op", r.op},
                    {"source", r.source},
                    {"avoid", r.avoid}});
  return list;
}

Json to_json(const std::vector<EvaluatedStep>& steps) {
  Json list = Json::array();
  for (const EvaluatedStep& step : steps)
    list.push_back({{"op", step.op},
                    {"instruction", step.instruction},
                    {"shape", to_string(step.shape)},
                    {"source", step.source}});
  return list;
}

Json element_json(const Element& element) {
  return std::visit(
      [](const auto& value) -> Json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, double>)
          return number(value);
        else if constexpr (std::is_same_v<T, std::complex<double>>)
          return {number(value.real()), number(value.imag())};
        else
          return value;
      },
      element);
}

std::string element_text(const Element& element) {
  const auto text = [](const Json& part) {
    return part.is_string() ? part.get<std::string>() : part.dump();
  };
  const Json value = element_json(element);
  if (!value.is_array()) return text(value);
  return fmt::format("({}, {})", text(value[0]), text(value[1]));
}

Json to_json(const Array& array) {
  Json result = {{"dtype", dtype_name(array.dtype())}, {"shape", array.dims()}};
  if (array.size() > kMaxJsonElements) return result;
  Json data = Json::array();
  if (has_elements(array.dtype()))
    for (int64_t i = 0; i < array.size(); ++i) data.push_back(element_json(element_at(array, i)));
  result["data"] = std::move(data);
  return result;
}

std::string to_table(const std::vector<CollectiveStats>& collectives) {
  if (collectives.empty()) return "no collectives\n";
  std::string text = fmt::format("{:<20} {:>6} {:>14}  {:<14} {:<28} {}\n", "kind", "count",
                                 "bytes sent", "axes", "groups", "because of");
  for (const CollectiveStats& c : collectives) {
    std::string groups = c.groups.size() > 28 ? c.groups.substr(0, 25) + "..." : c.groups;
    text += fmt::format("{:<20} {:>6} {:>14}  {:<14} {:<28} {}{}{}{}\n", c.kind, c.count, c.bytes,
                        axes_text(c), groups, c.op, c.backward ? " (backward)" : "",
                        c.source.empty() ? "" : " at ", c.source);
  }
  return text;
}

std::string to_table(const std::vector<FullRematerialization>& all) {
  std::string text;
  for (const FullRematerialization& r : all)
    text += fmt::format("full rematerialization of {} {} from {} to {}, needed by {}{}{}{}{}\n",
                        r.tensor, r.shape, r.from, r.to, r.op, r.source.empty() ? "" : " at ",
                        r.source, r.avoid.empty() ? "" : "; ", r.avoid);
  return text;
}

std::string to_table(const std::vector<EvaluatedStep>& steps) {
  std::string text;
  for (const EvaluatedStep& step : steps)
    text += fmt::format("element by element, for want of a kernel: {}\n", to_string(step));
  return text;
}

std::string to_line(const Array& array) {
  std::string text = to_string(array.shape());
  const int64_t shown = std::min(array.size(), kShownElements);
  if (!has_elements(array.dtype())) return text;
  for (int64_t i = 0; i < shown; ++i) text += (i ? ", " : " ") + element_text(element_at(array, i));
  if (shown < array.size()) text += fmt::format(", ... ({} more)", array.size() - shown);
  return text;
}

double total_seconds(const std::vector<PassTime>& passes) {
  double seconds = 0;
  for (const PassTime& pass : passes) seconds += pass.seconds;
  return seconds;
}

int64_t instruction_count(const Module& module) {
  int64_t count = 0;
  for (const auto& computation : module.computations())
    count += static_cast<int64_t>(computation->nodes().size());
  return count;
}

}  // namespace gspmd::tools
