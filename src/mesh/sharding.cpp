#include "gspmd/mesh/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "gspmd/base/error.h"
#include "mesh/digit_tools.h"
#include "mesh/sharding_parts.h"
#include "mesh/sharding_text.h"

namespace gspmd {
namespace {

constexpr std::array<std::string_view, 6> kCombinerNames{"sum", "product", "max",
                                                         "min", "and",     "or"};

std::string digits_text(const Digits& digits) {
  std::string text;
  for (const Digit& d : digits) text += fmt::format("({},{})", d.size, d.stride);
  return fmt::format("[{}]", text);
}

// One entry per combiner, in the order of the enum, none of them empty.
std::vector<Unreduced> normalized(const std::vector<Unreduced>& unreduced) {
  std::array<Digits, kCombinerNames.size()> by_combiner;
  for (const Unreduced& u : unreduced) {
    Digits& digits = by_combiner[static_cast<size_t>(u.combiner)];
    digits.insert(digits.end(), u.digits.begin(), u.digits.end());
  }
  std::vector<Unreduced> out;
  for (size_t i = 0; i < by_combiner.size(); ++i) {
    Digits digits = canonical(std::move(by_combiner[i]));
    if (!digits.empty()) out.push_back({std::move(digits), static_cast<Combiner>(i)});
  }
  return out;
}

}  // namespace

Digits all_digits(const std::vector<Digits>& dims, const Digits& manual,
                  const std::vector<Unreduced>& unreduced) {
  Digits all;
  for (const Digits& d : dims) all.insert(all.end(), d.begin(), d.end());
  all.insert(all.end(), manual.begin(), manual.end());
  for (const Unreduced& u : unreduced) all.insert(all.end(), u.digits.begin(), u.digits.end());
  return all;
}

std::string_view combiner_name(Combiner combiner) {
  return kCombinerNames[static_cast<size_t>(combiner)];
}

Sharding Sharding::maximal(int64_t device) {
  Sharding s;
  s.kind_ = ShardingKind::maximal;
  s.device_ = device;
  return s;
}

Sharding Sharding::manual() {
  Sharding s;
  s.kind_ = ShardingKind::manual;
  return s;
}

Sharding Sharding::unknown() {
  Sharding s;
  s.kind_ = ShardingKind::unknown;
  return s;
}

Sharding Sharding::tuple(std::vector<Sharding> elements) {
  Sharding s;
  s.kind_ = ShardingKind::tuple;
  if (std::any_of(elements.begin(), elements.end(), std::mem_fn(&Sharding::is_tuple))) {
    std::vector<Sharding> flat;
    for (const Sharding& element : elements)
      if (element.is_tuple())
        flat.insert(flat.end(), element.elements().begin(), element.elements().end());
      else
        flat.push_back(element);
    elements = std::move(flat);
  }
  s.elements_ = Rare<std::vector<Sharding>>(std::move(elements));
  return s;
}

Sharding Sharding::unreduced_everywhere(Combiner combiner) {
  Sharding s;
  s.splits_ = Rare<Splits>(Splits{.unreduced = {{{}, combiner}}});
  return s;
}

Sharding Sharding::tiled(DeviceOrder order, std::vector<Digits> dims, Digits manual,
                         std::vector<Unreduced> unreduced) {
  for (Digits& digits : dims) digits = canonical(std::move(digits));
  manual = canonical(std::move(manual));
  unreduced = normalized(unreduced);
  const Digits all = all_digits(dims, manual, unreduced);
  Sharding s;
  if (all.empty()) return s;
  if (!order) internal_error("sharding: digits {} without a device order", digits_text(all));
  if (!fits(all, order->count))
    internal_error("sharding: digits {} overlap or do not fit {} devices", digits_text(all),
                   order->count);
  if (tile_count(manual) == order->count) return Sharding::manual();
  s.splits_ = Rare<Splits>(Splits{order, std::move(dims), std::move(manual), std::move(unreduced)});
  return s;
}

Sharding Sharding::tiled(DeviceOrder order, std::vector<Digits> dims, Digits manual) {
  return tiled(order, std::move(dims), std::move(manual), {});
}

Sharding::Sharding() = default;
Sharding Sharding::replicated() { return {}; }
Sharding::Sharding(const Sharding& other) noexcept = default;
Sharding::Sharding(Sharding&& other) noexcept = default;
Sharding& Sharding::operator=(const Sharding& other) noexcept = default;
Sharding& Sharding::operator=(Sharding&& other) noexcept = default;
Sharding::~Sharding() = default;

const Sharding::Splits& Sharding::splits() const { return splits_.get(); }
const Sharding::Notes& Sharding::notes() const { return notes_.get(); }

DeviceOrder Sharding::order() const { return splits().order; }
int64_t Sharding::rank() const { return std::ssize(splits().dims); }
const Digits& Sharding::manual_digits() const { return splits().manual; }
const std::vector<Unreduced>& Sharding::unreduced() const { return splits().unreduced; }
const std::vector<bool>& Sharding::open() const { return notes().open; }
const std::shared_ptr<const Mesh>& Sharding::mesh() const { return notes().mesh; }
int64_t Sharding::shard_group() const { return notes().shard_group; }
bool Sharding::shard_group_is_as() const { return notes().shard_group_is_as; }

const std::vector<Sharding>& Sharding::elements() const { return elements_.get(); }

bool Sharding::is_replicated() const { return is_tiled() && !splits_.present(); }

bool Sharding::is_unreduced_everywhere() const {
  return is_tiled() && splits_.present() && !order();
}

const Digits& Sharding::dim(int64_t i) const {
  static const Digits none;
  return i >= 0 && i < rank() ? splits().dims[static_cast<size_t>(i)] : none;
}

int64_t Sharding::num_tiles() const {
  int64_t count = 1;
  for (const Digits& digits : splits().dims) count *= tile_count(digits);
  return count;
}

Digits Sharding::replicated_digits() const {
  if (!order()) return {};
  return complement(all_digits(splits().dims, manual_digits(), unreduced()), order()->count);
}

Sharding Sharding::with_dim(int64_t i, Digits digits, int64_t rank, DeviceOrder order) const {
  if (!is_tiled() || i < 0 || i >= rank)
    internal_error("sharding: dim {} of rank {} set on {}", i, rank, to_string(*this));
  if (this->order() && order && order != this->order() && !digits.empty())
    internal_error("sharding: dim {} of {} set in another device order", i, to_string(*this));
  const DeviceOrder target = this->order() ? this->order() : order;
  std::vector<Digits> dims = splits().dims;
  dims.resize(static_cast<size_t>(std::max(rank, this->rank())));
  dims[static_cast<size_t>(i)] = std::move(digits);
  std::vector<Unreduced> unreduced = this->unreduced();
  if (is_unreduced_everywhere() && target)
    unreduced[0].digits = complement(canonical(dims[static_cast<size_t>(i)]), target->count);
  Sharding s = tiled(target, std::move(dims), manual_digits(), std::move(unreduced));
  s.notes_ = notes_;
  return s;
}

Sharding Sharding::with_unreduced(std::vector<Unreduced> unreduced) const {
  if (!is_tiled()) internal_error("sharding: unreduced digits set on {}", to_string(*this));
  Sharding s = tiled(order(), splits().dims, manual_digits(), std::move(unreduced));
  s.notes_ = notes_;
  return s;
}

Sharding Sharding::with_notes(Notes notes) const {
  Sharding s = *this;
  const bool any = !notes.open.empty() || notes.mesh || notes.shard_group != 0;
  s.notes_ = any ? Rare<Notes>(std::move(notes)) : Rare<Notes>();
  return s;
}

Sharding Sharding::with_open(std::vector<bool> open) const {
  if (std::find(open.begin(), open.end(), true) == open.end()) open.clear();
  if (open == this->open()) return *this;
  Notes changed = notes();
  changed.open = std::move(open);
  return with_notes(std::move(changed));
}

Sharding Sharding::with_mesh(std::shared_ptr<const Mesh> mesh) const {
  if (mesh == this->mesh()) return *this;
  Notes changed = notes();
  changed.mesh = std::move(mesh);
  return with_notes(std::move(changed));
}

Sharding Sharding::with_shard_group(int64_t id, bool is_as) const {
  Notes changed = notes();
  changed.shard_group = id;
  changed.shard_group_is_as = id != 0 && is_as;
  return with_notes(std::move(changed));
}

Sharding select_dims(const Sharding& s, const Dims& source) {
  if (!s.is_tiled() || !s.order()) return s;
  bool same = s.unreduced().empty() && s.rank() == std::ssize(source);
  for (int64_t d = 0; d < s.rank() && same; ++d) same = source[static_cast<size_t>(d)] == d;
  if (same) return s.with_open({});  // as it is spelled
  Sharding::Splits splits{s.order(), std::vector<Digits>(source.size()), s.manual_digits()};
  bool any = !splits.manual.empty();
  for (size_t d = 0; d < source.size(); ++d) {
    if (source[d] < 0) continue;
    splits.dims[d] = s.dim(source[d]);
    any = any || !splits.dims[d].empty();
  }
  Sharding selected;
  if (s.mesh()) selected = selected.with_mesh(s.mesh());
  if (any) selected.splits_ = Rare<Sharding::Splits>(std::move(splits));
  return selected;
}

namespace {

// The first devices of the first two tiles of a dim that is split.
std::pair<int64_t, int64_t> first_and_next(const Sharding& s, int64_t dim) {
  return {s.order()->device(0), s.order()->device(s.dim(dim).back().stride)};
}

}  // namespace

bool Sharding::operator==(const Sharding& other) const {
  if (kind_ != other.kind_ || device_ != other.device_) return false;
  if ((notes_.present() || other.notes_.present()) &&
      (open() != other.open() || shard_group() != other.shard_group() ||
       shard_group_is_as() != other.shard_group_is_as()))
    return false;
  if (is_tuple()) return elements_ == other.elements_;
  if (!is_tiled() || splits_ == other.splits_) return true;
  if (order() == other.order()) return splits() == other.splits();
  // Different orders may still list the same devices; one of them is then an explicit list, so the
  // arrays are no larger than what exists already.
  if (!order() || !other.order() || order()->count != other.order()->count ||
      rank() != other.rank() || unreduced().size() != other.unreduced().size())
    return false;
  for (size_t i = 0; i < unreduced().size(); ++i)
    if (unreduced()[i].combiner != other.unreduced()[i].combiner) return false;
  for (int64_t i = 0; i < rank(); ++i)
    if (tiles(i) != other.tiles(i)) return false;
  for (int64_t i = 0; i < rank(); ++i)
    if (!dim(i).empty() && first_and_next(*this, i) != first_and_next(other, i)) return false;
  return device_array(*this, rank()) == device_array(other, rank());
}

namespace {

Shape local_array_shape(const Shape& global, const Sharding& sharding) {
  if (sharding.rank() > global.rank())
    user_error("sharding: {} splits {} dims, but {} has {}; give one entry per dim of the value",
               to_string(sharding), sharding.rank(), to_string(global), global.rank());
  Shape local = global;
  for (int64_t i = 0; i < sharding.rank(); ++i) {
    int64_t& d = local.dims[static_cast<size_t>(i)];
    d = ceil_div(d, sharding.tiles(i));
  }
  return local;
}

// Fills in leaves of `shape` from `leaf` on.
Shape local_tuple_shape(const Shape& shape, const Sharding& sharding, size_t& leaf) {
  if (!shape.is_tuple)
    return local_array_shape(shape, sharding.is_tuple() ? sharding.elements()[leaf++] : sharding);
  Shape local = shape;
  for (Shape& element : local.elements) element = local_tuple_shape(element, sharding, leaf);
  return local;
}

}  // namespace

Shape local_shape(const Shape& global, const Sharding& sharding) {
  if (sharding.is_tuple()) {
    const int64_t leaves = global.is_tuple ? leaf_count(global) : -1;
    const auto given = static_cast<int64_t>(sharding.elements().size());
    if (leaves != given)
      user_error("sharding: {} has {} elements, but {} has {}; give one per leaf",
                 to_string(sharding), given, to_string(global),
                 leaves < 0 ? "no tuple elements" : fmt::format("{} leaves", leaves));
  }
  size_t leaf = 0;
  return local_tuple_shape(global, sharding, leaf);
}

namespace {

std::string dim_phrase(size_t first, size_t second, size_t rank) {
  if (first == second) return fmt::format("dim {} of a rank-{} tensor twice", first, rank);
  return fmt::format("dims {} and {} of a rank-{} tensor", first, second, rank);
}

}  // namespace

Sharding mesh_sharding(const Mesh& mesh, const std::vector<std::vector<int64_t>>& dims_mapping,
                       std::vector<bool> open, Site site) {
  const size_t rank = dims_mapping.size();
  if (open.size() > rank)
    user_error(site, "mesh_split: {} open flags for a rank-{} tensor; give one per dim",
               open.size(), rank);
  std::vector<int64_t> user_of(mesh.axes().size(), -1);
  std::vector<Digits> dims(rank);
  for (size_t i = 0; i < rank; ++i) {
    for (const int64_t axis : dims_mapping[i]) {
      if (axis < 0 || axis >= mesh.rank())
        user_error(site,
                   "mesh_split: dim {} is split over mesh axis {}, but {} has {} axes; axes "
                   "count from 0",
                   i, axis, to_string(mesh), mesh.rank());
      int64_t& user = user_of[static_cast<size_t>(axis)];
      if (user >= 0)
        user_error(site, "mesh_split: axis \"{}\" splits {}; an axis may split one dim only",
                   mesh.axes()[static_cast<size_t>(axis)].name,
                   dim_phrase(static_cast<size_t>(user), i, rank));
      user = static_cast<int64_t>(i);
      dims[i].push_back(mesh.digit(axis));
    }
  }
  if (!open.empty()) open.resize(rank, false);
  return Sharding::tiled(mesh.order(), std::move(dims))
      .with_open(std::move(open))
      .with_mesh(std::make_shared<const Mesh>(mesh));
}

}  // namespace gspmd
