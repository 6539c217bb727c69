#pragma once

// How a value is laid out over devices: what annotations, completion and partitioning share.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/base/rare.h"
#include "gspmd/base/shape.h"
#include "gspmd/mesh/digits.h"
#include "gspmd/mesh/mesh.h"

namespace gspmd {

// What makes one value of partial ones.
enum class Combiner : uint8_t { sum, product, max, min, logical_and, logical_or };
// "sum", "product", "max", "min", "and", "or".
GSPMD_API std::string_view combiner_name(Combiner combiner);

// A value is a partial result along `digits`, still to be combined.
struct Unreduced {
  Digits digits;                      // along which it is partial
  Combiner combiner = Combiner::sum;  // what combines the partials
  bool operator==(const Unreduced&) const = default;
};

// The forms of a sharding.
enum class ShardingKind : uint8_t { tiled, maximal, manual, unknown, tuple };

// How one value is laid out over devices. An immutable value whose size does not depend on the
// number of devices. A tiled sharding has per tensor dim an ordered list of digits over the ranks
// of `order()`, manual digits, unreduced digits with combiners; the rest of the rank is replicated.
// A tiled sharding that splits nothing is `{replicated}`: it has no order and fits any rank.
// arXiv:2105.04663, 3.1; text forms: HLO V1, V2 and named V3.
class GSPMD_API Sharding {
 public:
  Sharding();                                             // replicated
  static Sharding replicated();                           // the whole value on every device
  static Sharding maximal(int64_t device);                // the whole value on one device
  static Sharding manual();                               // the whole value, all devices
  static Sharding unknown();                              // not decided
  static Sharding tuple(std::vector<Sharding> elements);  // nested tuples are flattened
  // HLO's `{unreduced}`: every device holds a partial of the whole value, for any number of
  // devices. Tiled, without an order, with one Unreduced whose digits are empty; the first with_dim
  // or merge that brings an order is told its digits.
  static Sharding unreduced_everywhere(Combiner combiner = Combiner::sum);
  // --- Copies share what they are made of
  Sharding(const Sharding& other) noexcept;
  Sharding(Sharding&& other) noexcept;
  Sharding& operator=(const Sharding& other) noexcept;
  Sharding& operator=(Sharding&& other) noexcept;
  ~Sharding();
  // Digits are made canonical, digits of one combiner joined, empty Unreduced entries dropped; all
  // digits manual makes manual(). InternalError where digits overlap or exceed the order's count.
  static Sharding tiled(DeviceOrder order, std::vector<Digits> dims, Digits manual,
                        std::vector<Unreduced> unreduced);
  static Sharding tiled(DeviceOrder order, std::vector<Digits> dims, Digits manual = {});

  // --- What kind it is; manual is a kind only where the whole value is manual
  ShardingKind kind() const { return kind_; }
  bool is_tuple() const { return kind_ == ShardingKind::tuple; }
  bool is_tiled() const { return kind_ == ShardingKind::tiled; }
  bool is_replicated() const;            // tiled, nothing split, manual or unreduced
  bool is_unreduced_everywhere() const;  // as unreduced_everywhere() makes it
  bool is_manual() const { return kind_ == ShardingKind::manual; }  // of the whole value
  int64_t device() const { return device_; }                        // of maximal
  const std::vector<Sharding>& elements() const;                    // of a tuple
  DeviceOrder order() const;                                        // nullptr when replicated
  const Digits& dim(int64_t i) const;                               // empty beyond what is stored
  int64_t rank() const;                                             // 0 when replicated
  int64_t tiles(int64_t i) const { return tile_count(dim(i)); }     // number of parts of dim i
  int64_t num_tiles() const;                                        // over data dims
  const Digits& manual_digits() const;                              // axes where code is manual
  // What is still to be combined.
  const std::vector<Unreduced>& unreduced() const;
  // What no dim, manual or unreduced digit reads, by descending stride.
  Digits replicated_digits() const;

  // Of a tiled sharding: dim `i` of `rank` split by `digits` instead. `order` is this sharding's
  // own, or the one to take where it has none. Mesh, open dims and group are kept; InternalError
  // otherwise.
  Sharding with_dim(int64_t i, Digits digits, int64_t rank, DeviceOrder order) const;
  Sharding with_unreduced(std::vector<Unreduced> unreduced) const;  // needs an order unless empty

  // Open dims (V3's `?`, or a Sharding op's unspecified_dims): completion may refine them.
  const std::vector<bool>& open() const;             // empty = none
  Sharding with_open(std::vector<bool> open) const;  // One entry per dim, or none.
  // The mesh whose axis names spell this sharding; printing uses V3 then. Not part of ==.
  const std::shared_ptr<const Mesh>& mesh() const;
  // The same sharding, printed by this mesh's names.
  Sharding with_mesh(std::shared_ptr<const Mesh> mesh) const;
  // shard_as / shard_like group: 0 = none, else one more than the number in the text (which may be
  // 0).
  int64_t shard_group() const;
  // Shard_as: equal layouts; shard_like otherwise.
  bool shard_group_is_as() const;
  // Id as in shard_group(); 0 leaves the group.
  Sharding with_shard_group(int64_t id, bool is_as) const;

  // Equal device arrays, subgroup types and order within subgroups (as HloSharding's ==), open dims
  // and group; spelling and mesh names do not matter.
  bool operator==(const Sharding& other) const;

 private:
  friend class ShardingText;
  friend Sharding select_dims(const Sharding& s, const Dims& source);
  struct Splits;  // what is tiled; copies share it, since it never changes
  struct Notes;   // what few shardings have; shared likewise
  const Splits& splits() const;
  const Notes& notes() const;
  Sharding with_notes(Notes notes) const;

  ShardingKind kind_ = ShardingKind::tiled;
  Rare<Splits> splits_;  // absent: nothing is split
  int64_t device_ = 0;
  Rare<std::vector<Sharding>> elements_;  // of a tuple
  Rare<Notes> notes_;
};

// The sharding of a value whose dim d is dim `source[d]` of the value that is laid out as `s` (-1:
// none, not split; no dim twice). Digits of dims that are not named become replication, unreduced
// ones too; what is manual stays, and the mesh. What is not tiled stays as it is.
GSPMD_API Sharding select_dims(const Sharding& s, const Dims& source);

// The same tile on every device: like == but blind to spelling, order inside replicated subgroups,
// open dims and shard groups. Two different orders that lay out the data equally are equivalent.
GSPMD_API bool equivalent(const Sharding& a, const Sharding& b);

// Shard shape: ceil(dim / tiles) per dim; tuples leaf by leaf.
GSPMD_API Shape local_shape(const Shape& global, const Sharding& sharding);

// The part of the global array that a device holds. size may be 0 in a tail: start is then the dim;
// so in every dim on a device that has no tile at all, which is not `held`: a scalar has no dim
// that could say so.
struct Box {
  Dims start;        // first element of each dim
  Dims size;         // elements of each dim
  bool held = true;  // false: on a device that is none of the sharding's
  bool operator==(const Box&) const = default;
  bool is_empty() const;  // has no element: not held, or some size is 0
};
// InternalError: of a tuple, or of a value with fewer dims.
GSPMD_API Box shard_box(const Shape& global, const Sharding& sharding, int64_t device);

// The union of two shardings where every dim agrees: digits equal or one side empty, all digits
// disjoint; different orders are compared device by device. nullopt where they conflict.
// Replicated merges with everything tiled; manual digits must be equal; unreduced digits are
// joined. The result is closed, in the order of a, of b, or of the sorted devices, the first that
// has digits for it. arXiv:2105.04663, 3.5.
GSPMD_API std::optional<Sharding> merge(const Sharding& a, const Sharding& b, int64_t rank);
// As merge, but a dim may also extend the other ([x] with [x,y]): a rule of traced programs only.
GSPMD_API std::optional<Sharding> merge_by_prefix(const Sharding& a, const Sharding& b,
                                                  int64_t rank);

// Whether every tile of `fine` lies inside one tile of `coarse` on the same device, dim by dim.
GSPMD_API bool is_sub_tiling(const Sharding& fine, const Sharding& coarse, const Shape& global);

// Text. parse accepts the forms of docs/spec/sharding.md 2.1, with or without an outer "sharding=";
// UserError with the column (0-based) inside `text` and the way out. `rank` < 0: not known.
GSPMD_API Sharding parse_sharding(std::string_view text, int64_t rank = -1);
// With the outer braces: "{devices=[2,1,2]<=[4] last_tile_dim_replicate}". V2 where the device
// array is an iota of up to any rank, V1 list else. V3 when the axes of an attached mesh spell all
// digits, or when a combiner other than sum has to be said (over axes made up for it). V1 and V2
// have no open dims.
GSPMD_API std::string to_string(const Sharding& sharding);
// Never V3; named shardings converted.
GSPMD_API std::string to_string_v2(const Sharding& sharding);

// The materialised device array of a tiled sharding, for tests and slow paths: dims are data dims
// then subgroups; size device_count. O(devices). Of a replicated sharding: dims all 1, no devices.
struct DeviceArray {
  Dims dims;                     // data dims, then subgroups
  std::vector<int64_t> devices;  // row-major
  std::string subgroup_types;    // one of m, u, r per trailing dim
  bool operator==(const DeviceArray&) const = default;
};
// InternalError: not tiled.
GSPMD_API DeviceArray device_array(const Sharding& sharding, int64_t rank);

// A picture of who holds what, for people: a table over the (first) two split dims, at most 8x8
// tiles.
GSPMD_API std::string visualize(const Shape& global, const Sharding& sharding);

// arXiv:2105.04663, 3.6 (mesh_split): dims_mapping[i] lists mesh axes of tensor dim i, major first.
// UserError names the op, dim and axis: repeated axis, axis out of range, more dims than rank.
GSPMD_API Sharding mesh_sharding(const Mesh& mesh,
                                 const std::vector<std::vector<int64_t>>& dims_mapping,
                                 std::vector<bool> open = {}, Site site = {});

}  // namespace gspmd
