#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/ir/opcode.h"
#include "stablehlo/text/syntax.h"

namespace gspmd::stablehlo {

class OpReader;
class OpLowering;

// "dims = [0]" of a pretty form and the attribute that it is.
struct KeyName {
  std::string_view key;
  std::string_view attribute;
};

// What the library knows of one op of the text.
struct OpRow {
  std::string_view name;
  // The HLO node that it is: its results are that, or the elements of its tuple, unless the
  // lowering has set them (OpLowering::set_results). nullptr: none, results are set.
  Node* (*lower)(OpLowering& op) = nullptr;
  Opcode opcode = Opcode::parameter;
  // The pretty form, the cursor behind the name; nullptr: "%a, %b, key = value {..} : T".
  void (*read)(OpReader& reader, Op& op) = nullptr;
  // Words of the common form.
  std::span<const KeyName> keys = {};
  // Attributes of its own that the lowering does not read: they say nothing to HLO.
  std::span<const std::string_view> ignored = {};
};

// nullptr: there is no such op.
const OpRow* find_row(std::string_view name);

// --- One table per family of ops
std::span<const OpRow> elementwise_rows();
std::span<const OpRow> shape_rows();
std::span<const OpRow> contraction_rows();
std::span<const OpRow> region_rows();
std::span<const OpRow> indexing_rows();
std::span<const OpRow> control_rows();
std::span<const OpRow> call_rows();
std::span<const OpRow> collective_rows();
std::span<const OpRow> host_rows();
std::span<const OpRow> dynamic_rows();
std::span<const OpRow> chlo_rows();
std::span<const OpRow> sdy_rows();
// "all_gather", ...: whether Shardy has a collective of the name.
bool is_sdy_collective(std::string_view name);
std::span<const OpRow> check_rows();
std::span<const OpRow> builtin_rows();
std::span<const OpRow> parallel_rows();

}  // namespace gspmd::stablehlo
