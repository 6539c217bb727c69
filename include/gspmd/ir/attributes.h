#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/mesh/digits.h"

namespace gspmd {

struct DotDims {
  Dims lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  bool operator==(const DotDims&) const = default;
};

struct GatherDims {
  Dims offset_dims, collapsed_slice_dims, start_index_map;
  Dims operand_batching_dims, start_indices_batching_dims;
  int64_t index_vector_dim = 0;
  bool operator==(const GatherDims&) const = default;
};

struct ScatterDims {
  Dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  Dims input_batching_dims, scatter_indices_batching_dims;
  int64_t index_vector_dim = 0;
  bool operator==(const ScatterDims&) const = default;
};

struct PaddingDim {
  int64_t low = 0, high = 0, interior = 0;
  bool operator==(const PaddingDim&) const = default;
};

enum class Direction : uint8_t { eq, ne, ge, gt, le, lt };  // of compare; printed EQ, NE, ...

// Who sends to whom in a collective-permute. Either explicit device pairs, or, for any number of
// devices, a digit permutation over `order`: the device of rank r sends to the device whose rank has
// at digit to[i] the coordinate that r has at digit from[i] (from and to read the same set of digits).
struct Permutation {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  DeviceOrder order = nullptr;  // set for the digit form
  Digits from, to;
  bool operator==(const Permutation&) const = default;
};
// Pairs of either form; a digit permutation lists every device of its order. O(devices).
std::vector<std::pair<int64_t, int64_t>> materialize(const Permutation& permutation);

// Attributes of all opcodes; an opcode reads the fields that HLO gives it and leaves the others at
// their defaults.
struct Attributes {
  Dims dimensions;            // broadcast, reduce, transpose, reverse, concatenate, all-gather, ...
  int64_t index = 0;          // parameter number; get-tuple-element index; iota_dimension
  Dims starts, limits, strides;  // slice
  Dims slice_sizes;           // gather slice_sizes; dynamic-slice dynamic_slice_sizes
  std::vector<PaddingDim> padding;
  DotDims dot;
  GatherDims gather;
  ScatterDims scatter;
  Direction direction = Direction::eq;
  std::string compare_type;   // "", FLOAT, TOTALORDER, SIGNED, UNSIGNED
  Array literal;              // constant; shared, never written
  ReplicaGroups replica_groups;
  Permutation permutation;
  std::optional<int64_t> channel_id;
  bool use_global_device_ids = false;
  bool indices_are_sorted = false;
  bool unique_indices = false;
  std::string custom_call_target;
  std::string fusion_kind;    // kLoop, kOutput, ...
  // Attributes without a field above, name -> raw text as written (operand_precision={..},
  // backend_config=.., is_host_transfer=..): kept, printed, no influence on numbers.
  std::map<std::string, std::string> other;
};
bool equal(const Attributes& a, const Attributes& b);  // literals compared bit by bit

struct Metadata {
  std::string op_name;      // the user's name of the value
  std::string op_type;
  std::string source_file;
  int64_t source_line = 0;
  std::map<std::string, std::string> other;
  bool operator==(const Metadata&) const = default;
};

}  // namespace gspmd
