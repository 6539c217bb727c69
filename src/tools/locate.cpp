#include "tools/locate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/verify/locate_difference.h"
#include "tools/compare.h"
#include "tools/inputs.h"

namespace gspmd::tools {
namespace {

constexpr int64_t kMostBytes = int64_t(1) << 30;  // of values kept to compare with

int64_t flat_index(const std::vector<int64_t>& index, const Dims& dims) {
  int64_t flat = 0;
  for (size_t d = 0; d < dims.size(); ++d) flat = flat * dims[d] + index[d];
  return flat;
}

WrongStep of_op(const ValueDifference& difference) {
  const Node& node = *difference.node;
  Json details = {{"opcode", opcode_name(node.opcode())},
                  {"computation", node.parent().name()},
                  {"iteration", difference.run},
                  {"leaf", difference.leaf},
                  {"device", difference.device},
                  {"index", difference.index},
                  {"expected", element_json(element_at(difference.expected, 0))},
                  {"actual", element_json(element_at(difference.found, 0))},
                  {"source", source_line(node.metadata)}};
  return {"op", node.name(), std::move(details)};
}

// The passes behind the partitioner, each with the module that it left.
std::vector<std::pair<std::string, std::string>> later_modules(const Prepared& prepared,
                                                               const Module& module,
                                                               const Command& command) {
  std::vector<std::pair<std::string, std::string>> all;
  PipelineOptions options = pipeline_options(command, module);
  bool partitioned = false;
  options.num_devices = prepared.num_devices;
  options.on_note = nullptr;  // said already
  options.dump_after = {"all"};
  options.dump = [&](const std::string& pass, const std::string& text) {
    if (partitioned && (all.empty() || all.back().second != text)) all.emplace_back(pass, text);
    partitioned = partitioned || pass == "partition";
  };
  run_pipeline(module, options);
  return all;
}

std::optional<WrongStep> search(const Prepared& prepared, const Module& module,
                                std::span<const Array> inputs, bool exact, const Command& command) {
  const Module& completed = *prepared.compiled.completed;
  const Tolerance tolerance{command.rtol, command.atol, {}};
  const FirstUnequal first_unequal = [&](const Array& expected, const Array& found) {
    const Comparison result =
        compare(std::span(&expected, 1), std::span(&found, 1), exact, tolerance);
    return result.equal ? std::nullopt
                        : std::optional(flat_index(result.first->index, expected.dims()));
  };
  const std::vector<Value> arguments = pack_arguments(completed, inputs);
  const PartitionResult partitioned =
      partition(completed, {prepared.num_devices, command.poison_absent});
  if (const auto difference = locate_difference(completed, partitioned, arguments, first_unequal,
                                                {prepared.num_devices, kMostBytes}))
    return of_op(*difference);
  const std::vector<Array> expected = leaves(evaluate(completed, arguments));
  const auto local = device_arguments(completed, prepared.num_devices, arguments);
  for (const auto& [pass, text] : later_modules(prepared, module, command)) {
    const auto stage = parse_module(text, pass);
    const std::vector<Array> found =
        whole_results(completed, evaluate_devices(*stage, prepared.num_devices, local));
    if (!compare(expected, found, exact, tolerance).equal) return WrongStep{"pass", pass, {}};
  }
  return WrongStep{"runtime", "", {}};
}

}  // namespace

std::optional<WrongStep> locate_wrong_step(const Prepared& prepared, const Module& module,
                                           std::span<const Array> inputs, bool exact,
                                           const Command& command) {
  try {
    return search(prepared, module, inputs, exact, command);
  } catch (const Error&) {
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

Json to_json(const std::optional<WrongStep>& step) {
  if (!step) return nullptr;
  Json json = {{"kind", step->kind}, {"name", step->name}};
  if (step->details.is_object()) json.update(step->details);
  return json;
}

std::string to_text(const WrongStep& step) {
  if (step.kind == "pass")
    return fmt::format(
        "the partitioner's program is right, that of pass {} is the first that is "
        "not; --disable {} leaves it out",
        step.name, step.name);
  if (step.kind == "runtime")
    return "the programs of all passes are right on the reference interpreter: a kernel or the "
           "executor differs";
  const Json& d = step.details;
  const std::string source = d.at("source").get<std::string>();
  return fmt::format(
      "first wrong op: {} = {} in {}{}, run {}: device {} at {}: expected {}, found {}", step.name,
      d.at("opcode").get<std::string>(), d.at("computation").get<std::string>(),
      source.empty() ? "" : fmt::format(" ({})", source), d.at("iteration").get<int64_t>(),
      d.at("device").get<int64_t>(), d.at("index").dump(), d.at("expected").dump(),
      d.at("actual").dump());
}

}  // namespace gspmd::tools
