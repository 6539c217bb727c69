#include <algorithm>
#include <cstdlib>

#include "gspmd/ir/text.h"
#include "gspmd/passes/collective_stats.h"
#include "gspmd/passes/reshard.h"
#include "passes/spmd_check.h"

// All pairs of layouts of a rank-3 tensor, each planned, partitioned, run and counted.

using namespace gspmd;
using namespace gspmd::testing;

namespace {

constexpr int64_t kRank = 3;

struct Setting {
  const char* name;
  std::vector<DeviceOrder> orders;
  std::vector<Digits> chains;  // axes, and the parts of axes that a layout may use
  int64_t devices;             // of the program: more than the layouts use, for a subset
  Dims even, uneven;
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> list{
      {"(2,4)", {iota_order(8)}, {{{2, 4}, {4, 1}}}, 8, {8, 8, 16}, {5, 7, 9}},
      {"(2,2,2)", {iota_order(8)}, {{{2, 4}, {2, 2}, {2, 1}}}, 8, {8, 8, 16}, {6, 7, 9}},
      {"(6)",
       {iota_order(6)},
       {{{6, 1}}, {{2, 3}, {3, 1}}, {{3, 2}, {2, 1}}},
       6,
       {6, 12, 6},
       {5, 8, 7}},
      {"4 of 8 devices",
       {list_order({1, 2, 5, 6}), list_order({6, 1, 5, 2})},
       {{{2, 2}, {2, 1}}},
       8,
       {4, 8, 4},
       {5, 3, 6}}};
  return list;
}

void place(DeviceOrder order, const Digits& left, std::vector<Digits>& dims,
           std::vector<Sharding>& out) {
  const Sharding s = Sharding::tiled(order, dims);
  if (std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
  for (size_t i = 0; i < left.size(); ++i) {
    Digits rest = left;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    for (Digits& dim : dims) {
      dim.push_back(left[i]);
      place(order, rest, dims, out);
      dim.pop_back();
    }
  }
}

std::vector<Sharding> layouts(const Setting& setting) {
  std::vector<Sharding> out;
  for (const DeviceOrder order : setting.orders)
    for (const Digits& chain : setting.chains) {
      std::vector<Digits> dims(kRank);
      place(order, chain, dims, out);
    }
  return out;
}

int64_t volume(const Dims& size) {
  int64_t count = 1;
  for (const int64_t d : size) count *= d;
  return count;
}

// What the device that is worst off must be sent: its new tile less what it has of it.
int64_t bytes_lacking(const Shape& shape, const Sharding& from, const Sharding& to,
                      DeviceOrder order) {
  int64_t most = 0;
  for (int64_t r = 0; r < order->count; ++r) {
    const Box have = shard_box(shape, from, order->device(r));
    const Box want = shard_box(shape, to, order->device(r));
    int64_t common = 1;
    for (size_t d = 0; d < shape.dims.size(); ++d) {
      const int64_t end = std::min(have.start[d] + have.size[d], want.start[d] + want.size[d]);
      common *= std::max<int64_t>(end - std::max(have.start[d], want.start[d]), 0);
    }
    most = std::max(most, (volume(want.size) - common) * dtype_size(shape.dtype));
  }
  return most;
}

// In one order. Without them no part of a split of one is a part of a split of the other: r / 3 and
// r % 2 of six.
bool have_common_cuts(const Sharding& a, const Sharding& b) {
  if (a.order() && b.order() && a.order() != b.order()) return false;
  std::vector<Digits> lists;
  for (int64_t d = 0; d < kRank; ++d) {
    lists.push_back(a.dim(d));
    lists.push_back(b.dim(d));
  }
  return common_atoms(lists).has_value();
}

int64_t gathered_bytes(const Shape& shape, const Sharding& from) {
  return plan_reshard(shape, from, Sharding::replicated()).cost.bytes;
}

// "" or what is wrong with a plan as such.
std::string planned_wrongly(const Setting& setting, const Shape& shape, const Sharding& from,
                            const Sharding& to) {
  const ReshardPlan plan = plan_reshard(shape, from, to);
  const int64_t bytes = plan.cost.bytes, gather = gathered_bytes(shape, from);
  const int64_t lacking = bytes_lacking(shape, from, to, setting.orders[0]);
  if (bytes > gather) return fmt::format("{} bytes, all-gather and slice {}", bytes, gather);
  if (bytes > local_shape(shape, from).bytes() * (from.num_tiles() - 1))
    return fmt::format("{} bytes, one all-gather of everything fewer", bytes);
  if (bytes < lacking) return fmt::format("{} bytes, a device lacks {}", bytes, lacking);
  if (plan.steps.empty() != equivalent(from, to)) return "steps where equivalent, or none";
  if (lacking == 0 && bytes != 0) return fmt::format("{} bytes though nothing is lacking", bytes);
  return "";
}

// "" or how the emitted program differs from the plan or its results from the whole value.
std::string moved_wrongly(const Setting& setting, const Shape& shape, const Sharding& from,
                          const Sharding& to) {
  const auto module = parse_module(fmt::format(
      "HloModule m\nENTRY e {{ a = {0} parameter(0)\n ROOT b = {0} copy(a) }}", to_string(shape)));
  module->entry()->parameters()[0]->sharding = from;
  module->entry()->root()->sharding = to;
  PipelineOptions options;
  options.num_devices = setting.devices;
  options.verify_between = true;
  const CompiledModule compiled = run_pipeline(*module, options);
  int64_t counted = 0;
  for (const CollectiveStats& stats : collective_stats(*compiled.uncombined))
    counted += stats.bytes;
  const ReshardPlan plan = plan_reshard(shape, from, to);
  // A program for more devices than the layouts name moves values over all of them.
  const bool subset = from.order() && from.order()->count < setting.devices;
  if (counted != plan.cost.bytes && !subset)
    return fmt::format("{} bytes planned, {} counted\n{}", plan.cost.bytes, counted,
                       to_text(*compiled.uncombined));
  const std::vector<Value> arguments = integer_arguments(*module, 7);
  const Value got = run_partitioned(compiled, setting.devices, arguments);
  if (!bitwise_equal(leaves(arguments[0])[0], leaves(got)[0]))
    return "other data\n" + to_text(*compiled.local);
  return "";
}

std::string title(const Setting& setting, const Shape& shape, const Sharding& from,
                  const Sharding& to) {
  return fmt::format("{} {}: {} -> {}: {}", setting.name, to_string(shape), to_string(from),
                     to_string(to), to_string(plan_reshard(shape, from, to)));
}

}  // namespace

TEST_CASE("reshard pairs: no more bytes than an all-gather, no fewer than a device lacks") {
  int64_t pairs = 0;
  for (const Setting& setting : settings()) {
    const std::vector<Sharding> all = layouts(setting);
    for (const Dims& dims : {setting.even, setting.uneven})
      for (const Sharding& from : all)
        for (const Sharding& to : all) {
          const Shape shape(DType::f32, dims);
          const std::string wrong = planned_wrongly(setting, shape, from, to);
          ++pairs;
          if (!wrong.empty()) FAIL_CHECK(title(setting, shape, from, to) << "\n" << wrong);
        }
  }
  CHECK(pairs > 25'000);
}

TEST_CASE("reshard pairs: fewer bytes than an all-gather wherever no device lacks as many") {
  int64_t fewer = 0;
  for (const Setting& setting : settings()) {
    const std::vector<Sharding> all = layouts(setting);
    const Shape shape(DType::f32, setting.even);
    for (const Sharding& from : all)
      for (const Sharding& to : all) {
        const int64_t gather = gathered_bytes(shape, from);
        if (!have_common_cuts(from, to)) continue;
        if (bytes_lacking(shape, from, to, setting.orders[0]) == gather) continue;
        if (plan_reshard(shape, from, to).cost.bytes < gather)
          ++fewer;
        else
          FAIL_CHECK(title(setting, shape, from, to));
      }
  }
  CHECK(fewer > 10'000);
}

TEST_CASE("reshard pairs: data arrives and as many bytes are counted as were planned") {
  const bool all_pairs = std::getenv("GSPMD_LONG") != nullptr;
  constexpr uint64_t kSample = 350;  // of each setting and size
  uint64_t state = 2024;
  for (const Setting& setting : settings()) {
    const std::vector<Sharding> all = layouts(setting);
    const uint64_t pairs = all.size() * all.size();
    for (const Dims& dims : {setting.even, setting.uneven})
      for (const Sharding& from : all)
        for (const Sharding& to : all) {
          state = state * 6364136223846793005ull + 1442695040888963407ull;
          if (!all_pairs && (state >> 33) % pairs >= kSample) continue;
          const Shape shape(DType::f32, dims);
          const std::string wrong = moved_wrongly(setting, shape, from, to);
          if (!wrong.empty()) FAIL_CHECK(title(setting, shape, from, to) << "\n" << wrong);
        }
  }
}

TEST_CASE("reshard pairs: a detour over any other layout of one order is never cheaper") {
  const Setting& cube = settings()[1];
  const std::vector<Sharding> all = layouts(cube);
  const Shape shape(DType::f32, cube.even);
  std::vector<std::vector<int64_t>> bytes;
  for (const Sharding& from : all) {
    bytes.emplace_back();
    for (const Sharding& to : all) bytes.back().push_back(plan_reshard(shape, from, to).cost.bytes);
  }
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t c = 0; c < all.size(); ++c)
      for (size_t b = 0; b < all.size(); ++b)
        if (bytes[a][c] > bytes[a][b] + bytes[b][c])
          FAIL_CHECK(title(cube, shape, all[a], all[c]) << " through " << to_string(all[b]));
}

TEST_CASE("reshard pairs: layouts that two orders share are sliced without communication") {
  const Shape shape(DType::f32, {8, 8, 16});
  const Sharding from = parse_sharding("{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}", kRank);
  for (const char* text :
       {"{devices=[4,1,1,2]0,1,3,2,6,7,5,4 last_tile_dim_replicate}",
        "{devices=[8,1,1]0,1,3,2,6,7,5,4}", "{devices=[4,1,2]0,1,3,2,6,7,5,4}"}) {
    const Sharding to = parse_sharding(text, kRank);
    INFO(text);
    CHECK(plan_reshard(shape, from, to).cost.bytes == 0);
    CHECK(moved_wrongly(settings()[1], shape, from, to) == "");
  }
}
