#include "stablehlo/row.h"

#include <unordered_map>

#include "stablehlo/ops/targets.h"

namespace gspmd::stablehlo {
namespace {

using Table = std::unordered_map<std::string_view, const OpRow*>;

template <size_t count>
Table table_of(std::span<const OpRow> (*const (&families)[count])()) {
  Table table;
  for (const auto family : families)
    for (const OpRow& row : family()) table.emplace(row.name, &row);
  return table;
}

const OpRow* find_in(const Table& table, std::string_view name) {
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

const OpRow* find_row(std::string_view name) {
  static constexpr std::span<const OpRow> (*kFamilies[])() = {
      elementwise_rows, shape_rows, contraction_rows, region_rows,  indexing_rows,
      control_rows,     call_rows,  collective_rows,  host_rows,    dynamic_rows,
      chlo_rows,        sdy_rows,   check_rows,       builtin_rows, parallel_rows};
  static const Table table = table_of(kFamilies);
  return find_in(table, name);
}

const OpRow* find_target(std::string_view target) {
  static constexpr std::span<const OpRow> (*kFamilies[])() = {chlo_targets, dynamic_targets,
                                                              check_targets};
  static const Table table = table_of(kFamilies);
  return find_in(table, target);
}

}  // namespace gspmd::stablehlo
