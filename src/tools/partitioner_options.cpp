#include "tools/partitioner_options.h"

#include <fmt/format.h>

#include <optional>

#include "gspmd/base/error.h"
#include "tools/numbers.h"

namespace gspmd::tools {
namespace {

enum class Kind : uint8_t { flag, integer, text };
using Set = void (*)(WindowedEinsumOptions& windowed, int64_t value);
struct Option {
  const char* name;
  Kind kind;
  Set set = nullptr;  // of flags and integers
};

using W = WindowedEinsumOptions;
constexpr Option kOptions[] = {
    {"conv_halo_exchange_always_on_lhs", Kind::flag},
    {"report_instruction_count", Kind::flag},
    {"threshold_for_windowed_einsum_mib", Kind::integer,
     [](W& w, int64_t v) { w.threshold_mib = v; }},
    {"unroll_windowed_einsum", Kind::flag, [](W& w, int64_t v) { w.unroll = v != 0; }},
    {"bidirectional_windowed_einsum", Kind::flag,
     [](W& w, int64_t v) { w.bidirectional = v != 0; }},
    {"allow_module_signature_change", Kind::flag},
    {"allow_module_layout_signature_change", Kind::flag},
    {"cache_all_gather", Kind::flag},
    {"choose_faster_windowed_einsum_over_mem", Kind::flag},
    {"skip_checking_windowed_einsum_users", Kind::flag,
     [](W& w, int64_t v) { w.skip_checking_users = v != 0; }},
    {"enable_windowed_einsum_for_all_gather", Kind::flag,
     [](W& w, int64_t v) { w.all_gather = v != 0; }},
    {"enable_windowed_einsum_for_reduce_scatter", Kind::flag,
     [](W& w, int64_t v) { w.reduce_scatter = v != 0; }},
    {"enable_dynamic_slice_collective_broadcast", Kind::flag},
    {"max_partitions_for_dynamic_slice_collective_broadcast", Kind::integer},
    {"disable_ag_rewrite_for_multiple_consumers", Kind::flag},
    {"partial_windowed_einsum", Kind::flag},
    {"preferred_gather_partition_methods", Kind::text},
    {"preferred_scatter_partition_methods", Kind::text},
    {"total_bytes_windowed_einsum_threshold", Kind::integer,
     [](W& w, int64_t v) { w.total_bytes = v < 0 ? std::nullopt : std::optional(v); }},
    {"max_windowed_einsum_iteration", Kind::integer, [](W& w, int64_t v) { w.max_iterations = v; }},
    {"need_resolve_conflicts", Kind::flag},
};

bool is_true(const std::string& value) { return value == "true" || value == "1"; }

bool fits(const std::string& value, Kind kind) {
  if (kind == Kind::text) return !value.empty();
  if (kind == Kind::flag) return is_true(value) || value == "false" || value == "0";
  return to_integer<int64_t>(value).has_value();
}

}  // namespace

void set_shardy_option(const std::string& text, ShardyOptions& options) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) user_error("--option {}: give name=value", text);
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  if (name == "sdy_pass") {
    constexpr std::pair<const char*, ShardyPass> kPasses[] = {
        {"pipeline", ShardyPass::pipeline},           {"basic", ShardyPass::basic},
        {"aggressive", ShardyPass::aggressive},       {"op-priority", ShardyPass::op_priority},
        {"user-priority", ShardyPass::user_priority}, {"rules", ShardyPass::rules}};
    for (const auto& [known, pass] : kPasses)
      if (value == known) {
        options.pass = pass;
        return;
      }
    user_error("--option {}: use pipeline, basic, aggressive, op-priority, user-priority or rules",
               text);
  }
  constexpr std::pair<const char*, bool ShardyOptions::*> kFlags[] = {
      {"sdy_conservative", &ShardyOptions::conservative},
      {"sdy_conservativePropagation", &ShardyOptions::conservative},
      {"sdy_conservative_propagation", &ShardyOptions::conservative},
      {"sdy_op_priority", &ShardyOptions::op_priorities},
      {"sdy_user_priority", &ShardyOptions::user_priorities}};
  for (const auto& [known, flag] : kFlags) {
    if (name != known) continue;
    if (!fits(value, Kind::flag)) user_error("--option {}: {} takes true or false", text, name);
    options.*flag = is_true(value);
    return;
  }
  user_error(
      "--option {}: there is no option \"{}\"; of Shardy's rules there are sdy_pass, "
      "sdy_conservative, sdy_op_priority and sdy_user_priority",
      text, name);
}

bool set_partitioner_option(const std::string& text, PipelineOptions& options) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) user_error("--option {}: give name=value", text);
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  if (name.starts_with("sdy_")) {
    set_shardy_option(text, options.propagate.shardy);
    return true;
  }
  std::vector<std::string> names;
  for (const Option& known : kOptions) {
    names.emplace_back(known.name);
    if (name != known.name) continue;
    if (!fits(value, known.kind))
      user_error("--option {}: {} takes {}", text, name,
                 known.kind == Kind::flag      ? "true or false"
                 : known.kind == Kind::integer ? "an integer of 64 bits"
                                               : "a value");
    if (known.set)
      known.set(options.windowed_einsum,
                known.kind == Kind::flag ? int64_t{is_true(value)} : *to_integer<int64_t>(value));
    return known.set != nullptr;
  }
  user_error("--option {}: there is no option \"{}\"; options are {}", text, name,
             fmt::join(names, ", "));
}

}  // namespace gspmd::tools
