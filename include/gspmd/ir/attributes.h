#pragma once

// Attributes of instructions and where they came from.

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/base/export.h"
#include "gspmd/base/rare.h"
#include "gspmd/base/site.h"
#include "gspmd/ir/padding.h"
#include "gspmd/mesh/replica_groups.h"

namespace gspmd {

// dot: dimension numbers.
struct DotDims {
  // --- lhs_batch_dims and so on in HLO's text
  Dims lhs_batch = {}, rhs_batch = {}, lhs_contracting = {}, rhs_contracting = {};
  bool operator==(const DotDims&) const = default;
};

// gather: dimension numbers, HLO's names.
struct GatherDims {
  // --- as HLO's attributes of the same names
  Dims offset_dims = {}, collapsed_slice_dims = {}, start_index_map = {};
  Dims operand_batching_dims = {}, start_indices_batching_dims = {};
  int64_t index_vector_dim = 0;
  bool operator==(const GatherDims&) const = default;
};

// scatter: dimension numbers, HLO's names.
struct ScatterDims {
  // --- as HLO's attributes of the same names
  Dims update_window_dims = {}, inserted_window_dims = {}, scatter_dims_to_operand_dims = {};
  Dims input_batching_dims = {}, scatter_indices_batching_dims = {};
  int64_t index_vector_dim = 0;
  bool operator==(const ScatterDims&) const = default;
};

// One dim of a window, HLO's fields: size=, stride=, pad=low_high, lhs_dilate= (base), rhs_dilate=
// (window), rhs_reversal=.
struct WindowDim {
  // --- HLO's defaults: a window of one element
  int64_t size = 1, stride = 1, pad_low = 0, pad_high = 0;
  int64_t base_dilation = 1, window_dilation = 1;
  bool reversal = false;
  bool operator==(const WindowDim&) const = default;
};

// Which dim of each array plays which part; dim_labels=b01f_01io->b01f.
struct ConvDims {
  // --- dims of input, kernel and result by the part they play
  int64_t input_batch = 0, input_feature = 0;
  Dims input_spatial = {};
  int64_t kernel_input_feature = 0, kernel_output_feature = 0;
  Dims kernel_spatial = {};
  int64_t output_batch = 0, output_feature = 0;
  Dims output_spatial = {};
  int64_t feature_group_count = 1, batch_group_count = 1;
  bool operator==(const ConvDims&) const = default;
};

struct RaggedDotDims {   // beside DotDims
  Dims lhs_ragged = {};  // ragged dim of the left operand
  Dims rhs_group = {};   // group dim of the right one
  bool operator==(const RaggedDotDims&) const = default;
};

struct TriangularDims {  // triangular-solve; cholesky reads `lower` only
  // Whether a x = b or x a = b; which triangle is read; whether its diagonal is 1.
  bool left_side = false, lower = false, unit_diagonal = false;
  std::string transpose_a = {};  // NO_TRANSPOSE, TRANSPOSE, ADJOINT
  bool operator==(const TriangularDims&) const = default;
};

// Small attributes of rare opcodes.
struct ScalarAttributes {
  std::string fft_type = {};  // FFT, IFFT, RFFT, IRFFT; lengths in Attributes::dimensions
  double epsilon = 0;         // batch-norm-*; its feature_index is Attributes::index
  int64_t exponent_bits = 0, mantissa_bits = 0;  // reduce-precision
  std::string distribution = {};                 // rng: rng_uniform, rng_normal
  std::string algorithm = {};  // rng-bit-generator: rng_default, rng_three_fry, rng_philox
  int64_t delta = 0;           // rng-get-and-update-state
  bool is_stable = false;      // sort; its dim is Attributes::dimensions
  int64_t k = 0;               // topk
  bool largest = true;         // topk
  bool is_reverse = false;     // scan; its dim is Attributes::dimensions
  std::optional<bool> is_associative = {};  // scan
  int64_t num_carries = 0;                  // scan
  bool operator==(const ScalarAttributes&) const = default;
};

enum class Direction : uint8_t { eq, ne, ge, gt, le, lt };  // of compare; printed EQ, NE, ...

// A list of {source, target}; copies share it until one of them is changed.
class GSPMD_API Pairs {
 public:
  using List = std::vector<std::pair<int64_t, int64_t>>;  // what it holds
  // --- Empty, or of these
  Pairs() = default;
  Pairs(List list) : list_(std::make_shared<List>(std::move(list))) {}
  Pairs(std::initializer_list<std::pair<int64_t, int64_t>> list) : Pairs(List(list)) {}
  // --- Reading
  bool empty() const { return list().empty(); }
  size_t size() const { return list().size(); }
  List::const_iterator begin() const { return list().begin(); }
  List::const_iterator end() const { return list().end(); }
  const List& list() const;
  // The list to be changed, of this value alone.
  List& edit();
  // By elements.
  bool operator==(const Pairs& other) const {
    return list_ == other.list_ || list() == other.list();
  }

 private:
  std::shared_ptr<List> list_;
};

// A rule by which tiles send to each other, for tiles that are too many to list. The same rule is
// the same object.
class GSPMD_API TileRule {
 public:
  virtual ~TileRule() = default;
  virtual int64_t target(int64_t tile) const = 0;  // -1: it sends to none
};

// Who sends to whom in a collective-permute. Either explicit device pairs, or, for any number of
// devices, without a list, over the ranks of `order`:
//   a digit permutation (shift == 0): the device of rank r sends to the device whose rank has at
//   digit to[i] the coordinate that r has at digit from[i] (from and to read the same set of
//   digits); a shift (shift != 0, from == to): the devices that differ in these digits only are a
//   row in the order of their tile index; each sends to the one `shift` further on, round the end
//   when `wraps`, else not at all; by tiles (`tiles` or `rule`, from == to): as a shift, but each
//   sends to the one that the list or the rule names; from order to order (`targets`): the device
//   of rank r sends to that of rank r of the other order.
struct Permutation {
  // {source, target} device ids, of the form with a list.
  Pairs pairs = {};
  DeviceOrder order = nullptr;  // set for all forms without a list
  // --- of the forms without a list
  Digits from = {}, to = {};
  int64_t shift = 0;
  bool wraps = false;
  std::optional<Pairs> tiles = {};
  std::shared_ptr<const TileRule> rule = nullptr;
  DeviceOrder targets = nullptr;
  bool operator==(const Permutation&) const = default;
};
// A permutation of the second form.
GSPMD_API Permutation shift_along(DeviceOrder order, Digits digits, int64_t shift, bool wraps);
// One by tiles of the digits: by a list, each tile at most once on either side, or by a rule.
GSPMD_API Permutation tiles_along(DeviceOrder order, Digits digits, Pairs tiles);
GSPMD_API Permutation tiles_along(DeviceOrder order, Digits digits,
                                  std::shared_ptr<const TileRule> rule);
// Pairs of any form; without a list every device of the order is looked at. O(devices).
GSPMD_API Pairs materialize(const Permutation& permutation);
// Whether no device sends anything.
GSPMD_API bool is_empty(const Permutation& permutation);

// Attributes of all opcodes; an opcode reads the fields that HLO gives it and leaves the others at
// their defaults. A program has millions of them: what few opcodes have is Rare.
struct Attributes {
  Dims dimensions = {};  // broadcast, reduce, transpose, reverse, concatenate, all-gather, ...
  int64_t index = 0;     // parameter number; get-tuple-element index; iota_dimension
  Rare<Dims> starts = {}, limits = {}, strides = {};  // slice
  Rare<Dims> slice_sizes = {};                        // gather slice_sizes; dynamic_slice_sizes
  Rare<std::vector<PaddingDim>> padding = {};         // pad: one entry per dim
  // convolution (its spatial dims), reduce-window, select-and-scatter
  Rare<std::vector<WindowDim>> window = {};
  // --- of the ops they are named for
  Rare<ConvDims> conv = {};
  Rare<RaggedDotDims> ragged = {};
  Rare<TriangularDims> triangular = {};
  Rare<ScalarAttributes> scalar = {};
  Rare<DotDims> dot = {};
  Rare<GatherDims> gather = {};
  Rare<ScatterDims> scatter = {};
  Rare<std::string> compare_type = {};        // "", FLOAT, TOTALORDER, SIGNED, UNSIGNED
  Array literal = {};                         // constant; shared, never written
  Rare<ReplicaGroups> replica_groups = {};    // collectives; absent: one group of all
  Rare<Permutation> permutation = {};         // collective-permute
  std::optional<int64_t> channel_id = {};     // collectives: as in the text
  Direction direction = Direction::eq;        // compare
  bool use_global_device_ids = false;         // collectives: group members are global ids
  bool indices_are_sorted = false;            // gather, scatter: promised by the user
  bool unique_indices = false;                // scatter: promised by the user
  Rare<std::string> custom_call_target = {};  // custom-call: what is called
  Rare<std::string> fusion_kind = {};         // kLoop, kOutput, ...
  // Attributes without a field above, name -> raw text as written (operand_precision={..},
  // backend_config=.., is_host_transfer=..): kept, printed, no influence on numbers.
  Rare<std::map<std::string, std::string>> other = {};
};
GSPMD_API bool equal(const Attributes& a, const Attributes& b);  // literals compared bit by bit

// What HLO's `metadata={...}` says of an instruction, and where its text stands.
struct Metadata {
  Rare<std::string> op_name = {};                       // the user's name of the value
  Rare<std::string> op_type = {};                       // HLO's op_type
  Rare<std::string> source_file = {};                   // the user's file
  int64_t source_line = 0;                              // from 1; 0: not known
  Rare<std::map<std::string, std::string>> other = {};  // fields without a member here, raw
  // Of nodes that the partitioner makes: the nodes of the completed module that needed them and
  // whose value they move. Not printed, no part of ==.
  Rare<std::string> cause = {}, moved = {};
  // Where the instruction's name stands in the text that it was read from, for errors. Nodes that
  // are made for another have the other's. Not printed, no part of ==.
  Site text = {};
  // `cause`, `moved` and `text` do not count.
  bool operator==(const Metadata& o) const {
    return op_name == o.op_name && op_type == o.op_type && source_file == o.source_file &&
           source_line == o.source_line && other == o.other;
  }
};

}  // namespace gspmd
