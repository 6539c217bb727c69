#include <algorithm>
#include <array>
#include <numeric>

#include "mesh/digit_tools.h"
#include "mesh/sharding_parse.h"

namespace gspmd {

std::optional<Combiner> combiner_from_name(std::string_view name) {
  constexpr std::array<Combiner, 6> kAll{Combiner::sum,         Combiner::product,
                                         Combiner::max,         Combiner::min,
                                         Combiner::logical_and, Combiner::logical_or};
  for (const Combiner c : kAll)
    if (combiner_name(c) == name) return c;
  return std::nullopt;
}

void NamedShardingParser::mesh() {
  if (started_) text_.fail("a second mesh; a sharding has one");
  started_ = true;
  mesh_column_ = text_.column();
  text_.expect('[', "after mesh");
  while (!text_.accept(']')) {
    if (!axes_.empty()) text_.expect(',', "between the mesh axes");
    const char next = text_.peek();
    std::string name = next == '\'' || next == '"' ? text_.quoted() : std::string(text_.word());
    if (name.empty()) text_.fail("an axis name is missing; write mesh['x'=2,'y'=4]");
    text_.expect('=', "after the axis name");
    axes_.push_back({std::move(name), text_.number("axis size")});
  }
}

void NamedShardingParser::device_ids() {
  if (mesh_ || !devices_.empty())
    text_.fail("device_ids belongs directly after mesh[...], before the dims");
  text_.expect('=', "after device_ids");
  const bool round = text_.accept('(');
  text_.accept("<=");
  if (!text_.accept('[')) {
    devices_ = parse_devices(text_);
    text_.expect(')', "after the device ids");
    return;
  }
  if (!round) {
    devices_ = parse_devices(text_);
    text_.expect(']', "after the device ids");
    return;
  }
  // ([2,4]T(1,0)): iota over the dims, transposed.
  const size_t column = text_.column() - 1;
  text_.rewind(column);
  const Dims dims = parse_counts(text_, "device dim");
  const std::vector<int64_t> transpose = parse_transpose(text_, static_cast<int64_t>(dims.size()));
  text_.expect(')', "after the device ids");
  int64_t count = 1;
  for (const MeshAxis& axis : axes_) count = saturating_multiply(count, axis.size);
  const int64_t given = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  if (given != count)
    text_.fail_at(column, "device_ids name {} devices for the {} of the mesh", given, count);
  if (given > int64_t{1} << 20)
    text_.fail_at(column, "device_ids of {} devices; at most 2^20 may be permuted", given);
  const Dims strides = row_major_strides(dims);
  Digits sequence;
  for (const int64_t k : transpose)
    sequence.push_back({dims[static_cast<size_t>(k)], strides[static_cast<size_t>(k)]});
  devices_ = ranks_in_order(sequence);
}

void NamedShardingParser::resolve_mesh() {
  if (mesh_) return;
  try {
    mesh_ = std::make_shared<const Mesh>(std::move(axes_), std::move(devices_), Site{});
  } catch (const UserError& error) {
    text_.fail_at(mesh_column_, "{}", error.what());
  }
}

// 'x', or the part 'x':(pre)size of it: pre is the product of the sizes major to the part.
Digits NamedShardingParser::axis() {
  const size_t column = text_.column();
  const char next = text_.peek();
  const std::string name = next == '\'' || next == '"' ? text_.quoted() : std::string(text_.word());
  if (!mesh_->has(name))
    text_.fail_at(column, "axis '{}' is not in {}; use its axes", name, to_string(*mesh_));
  Digit digit = mesh_->digit(mesh_->index(name));
  if (text_.accept(':')) {
    text_.expect('(', "after ':' of a sub-axis");
    const int64_t pre = text_.number("size before the sub-axis");
    text_.expect(')', "after the size before the sub-axis");
    const int64_t size = text_.number("sub-axis size");
    const int64_t used = pre < 1 || size < 1 ? 0 : saturating_multiply(pre, size);
    if (used < 1 || digit.size % used != 0)
      text_.fail_at(column, "sub-axis '{}':({}){} does not divide the {} devices of its axis", name,
                    pre, size, digit.size);
    digit = {size, digit.stride * (digit.size / used)};
  }
  if (digit.size == 1) return {};
  take({digit}, column);
  return {digit};
}

void NamedShardingParser::take(const Digits& digits, size_t column) {
  taken_.insert(taken_.end(), digits.begin(), digits.end());
  if (!fits(taken_, mesh_->num_devices()))
    text_.fail_at(column, "an axis, or a part of one, is used twice; it may be used once only");
}

// {'x', 'y':(1)2, ?}, with an optional priority p1 behind, which is not ours to keep.
Digits NamedShardingParser::axis_list(bool* open) {
  resolve_mesh();
  Digits digits;
  text_.expect('{', "before the axes");
  for (bool first = true; !text_.accept('}'); first = false) {
    if (!first) text_.expect(',', "between axes");
    const size_t column = text_.column();
    if (text_.accept('?')) {
      if (!open) text_.fail_at(column, "'?' marks open dims only");
      *open = true;
      if (text_.peek() != '}') text_.fail("'?' is the last entry of a dim");
      continue;
    }
    const Digits more = axis();
    digits.insert(digits.end(), more.begin(), more.end());
  }
  return digits;
}

void NamedShardingParser::dims() {
  if (has_dims_) text_.fail("a second list of dims; a sharding has one");
  has_dims_ = true;
  text_.expect('[', "before the dims");
  resolve_mesh();
  while (!text_.accept(']')) {
    if (!dims_.empty()) text_.expect(',', "between the dims");
    bool open = false;
    dims_.push_back(axis_list(&open));
    open_.push_back(open);
    if (text_.peek() == 'p') {
      const size_t column = text_.column();
      const std::string_view priority = text_.word();
      if (priority.size() < 2 || priority.find_first_not_of("0123456789", 1) != priority.npos)
        text_.fail_at(column, "'{}' is not a priority; write p1", priority);
    }
  }
}

void NamedShardingParser::axes_of(std::string_view keyword) {
  text_.expect('=', "after the keyword");
  Combiner combiner = Combiner::sum;
  if (keyword == "unreduced" && text_.peek() != '{') {
    const size_t column = text_.column();
    const std::string_view name = text_.word();
    const std::optional<Combiner> named = combiner_from_name(name);
    if (!named)
      text_.fail_at(column, "'{}' is no combiner; use sum, product, max, min, and, or", name);
    combiner = *named;
  }
  const Digits digits = axis_list(nullptr);
  if (keyword == "manual") manual_.insert(manual_.end(), digits.begin(), digits.end());
  if (keyword == "unreduced") unreduced_.push_back({digits, combiner});
}

Sharding NamedShardingParser::build() {
  resolve_mesh();
  return Sharding::tiled(mesh_->order(), std::move(dims_), std::move(manual_),
                         std::move(unreduced_))
      .with_open(std::move(open_))
      .with_mesh(mesh_);
}

}  // namespace gspmd
