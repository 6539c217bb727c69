#include <algorithm>
#include <cstdlib>
#include <map>

#include "gspmd/ir/text.h"
#include "gspmd/moves/reshard.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "load.h"
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
  Dims even, uneven, tiny;     // tiny: dims of fewer elements than devices
  std::vector<std::string> more = {};
  std::vector<Dims> sizes() const { return {even, uneven, tiny}; }
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> list{
      {"(2,4)", {iota_order(8)}, {{{2, 4}, {4, 1}}}, 8, {8, 8, 16}, {5, 7, 9}, {4, 8, 4}},
      {"(2,2,2)", {iota_order(8)}, {{{2, 4}, {2, 2}, {2, 1}}}, 8, {8, 8, 16}, {6, 7, 9}, {3, 2, 5}},
      {"(6)",
       {iota_order(6)},
       {{{6, 1}}, {{2, 3}, {3, 1}}, {{3, 2}, {2, 1}}},
       6,
       {6, 12, 6},
       {5, 8, 7},
       {2, 12, 4}},
      {"4 of 8 devices",
       {list_order({1, 2, 5, 6}), list_order({6, 1, 5, 2}), list_order({0, 1, 2, 3})},
       {{{2, 2}, {2, 1}}},
       8,
       {4, 8, 4},
       {5, 3, 6},
       {2, 8, 1},
       {"{devices=[8,1,1]<=[8]}", "{devices=[2,2,2]<=[8]}",
        "{devices=[1,2,1,4]<=[8] last_tile_dim_replicate}",
        "{devices=[1,4,1,2]0,3,1,6,2,7,5,4 "
        "last_tile_dim_replicate}",
        "{maximal device=1}", "{maximal device=7}", "{devices=[1,1,2]3,7}",
        "{devices=[1,3,1]2,4,7}", "{devices=[3,1,2]0,1,2,3,4,6}"}}};
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
  for (const std::string& text : setting.more) out.push_back(parse_sharding(text, kRank));
  return out;
}

int64_t volume(const Dims& size) {
  int64_t count = 1;
  for (const int64_t d : size) count *= d;
  return count;
}

// What the device that is worst off must be sent: its new tile less what it has of it.
int64_t bytes_lacking(const Shape& shape, const Sharding& from, const Sharding& to,
                      int64_t devices) {
  int64_t most = 0;
  for (int64_t device = 0; device < devices; ++device) {
    const Box have = shard_box(shape, from, device), want = shard_box(shape, to, device);
    int64_t common = 1;
    for (size_t d = 0; d < shape.dims.size(); ++d) {
      const int64_t end = std::min(have.start[d] + have.size[d], want.start[d] + want.size[d]);
      common *= std::max<int64_t>(end - std::max(have.start[d], want.start[d]), 0);
    }
    most = std::max(most, (volume(want.size) - common) * dtype_size(shape.dtype));
  }
  return most;
}

bool has_some(const Shape& shape, const Sharding& s, int64_t device) {
  return volume(shard_box(shape, s, device).size) > 0;
}

// One all-gather among those who have the value; if others want some of it, all of it is sent to
// them. Then everybody slices.
int64_t gathered_bytes(const Setting& setting, const Shape& shape, const Sharding& from,
                       const Sharding& to) {
  int64_t bytes = local_shape(shape, from).bytes() * (from.num_tiles() - 1);
  for (int64_t device = 0; device < setting.devices; ++device)
    if (has_some(shape, to, device) && !has_some(shape, from, device)) return bytes + shape.bytes();
  return bytes;
}

// Whether each device that is to have a part has just that part already.
bool is_there(const Setting& setting, const Shape& shape, const Sharding& from,
              const Sharding& to) {
  for (int64_t device = 0; device < setting.devices; ++device) {
    const Box have = shard_box(shape, from, device), want = shard_box(shape, to, device);
    if (volume(want.size) > 0 && (have.start != want.start || have.size != want.size)) return false;
  }
  return true;
}

ReshardPlan plan_in(const Setting& setting, const Shape& shape, const Sharding& from,
                    const Sharding& to) {
  return plan_reshard(shape, from, to, setting.devices);
}

// "" or what is wrong with a plan as such.
std::string planned_wrongly(const Setting& setting, const Shape& shape, const Sharding& from,
                            const Sharding& to) {
  const ReshardPlan plan = plan_in(setting, shape, from, to);
  const int64_t bytes = plan.cost.bytes, gather = gathered_bytes(setting, shape, from, to);
  const int64_t lacking = bytes_lacking(shape, from, to, setting.devices);
  if (bytes > gather) return fmt::format("{} bytes, all-gather and slice {}", bytes, gather);
  if (bytes < lacking) return fmt::format("{} bytes, a device lacks {}", bytes, lacking);
  if (equivalent(from, to) && !plan.steps.empty()) return "steps though equivalent";
  if (plan.steps.empty() && !is_there(setting, shape, from, to)) return "no steps";
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
  const ReshardPlan plan = plan_in(setting, shape, from, to);
  if (counted != plan.cost.bytes)
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
                     to_string(to), to_string(plan_in(setting, shape, from, to)));
}

}  // namespace

namespace {

bool is_long() { return std::getenv("GSPMD_LONG") != nullptr; }

// All pairs of all settings and sizes, or a sample of `sample` each; calls check(setting, shape,
// from, to). Returns how many.
template <class Check>
int64_t for_pairs(uint64_t sample, Check&& check) {
  int64_t count = 0;
  uint64_t state = 2024;
  sample = static_cast<uint64_t>(random_load(static_cast<int64_t>(sample)));
  for (const Setting& setting : settings()) {
    const std::vector<Sharding> all = layouts(setting);
    const uint64_t pairs = all.size() * all.size();
    for (const Dims& dims : setting.sizes())
      for (const Sharding& from : all)
        for (const Sharding& to : all) {
          state = state * 6364136223846793005ull + 1442695040888963407ull;
          if (!is_long() && (state >> 33) % pairs >= sample) continue;
          check(setting, Shape(DType::f32, dims), from, to);
          ++count;
        }
  }
  return count;
}

// The triples of layouts where two reshards send less than one; the first few of them.
std::string cheaper_detours(const Setting& setting, const Shape& shape,
                            const std::vector<Sharding>& all) {
  std::vector<std::vector<int64_t>> bytes;
  for (const Sharding& from : all) {
    bytes.emplace_back();
    for (const Sharding& to : all)
      bytes.back().push_back(plan_in(setting, shape, from, to).cost.bytes);
  }
  std::string found;
  int64_t count = 0;
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t c = 0; c < all.size(); ++c)
      for (size_t b = 0; b < all.size(); ++b)
        if (bytes[a][c] > bytes[a][b] + bytes[b][c] && ++count <= 20)
          found += fmt::format("{}\n  {} bytes, {} + {} through {}\n  {}\n  {}\n",
                               title(setting, shape, all[a], all[c]), bytes[a][c], bytes[a][b],
                               bytes[b][c], to_string(all[b]),
                               to_string(plan_in(setting, shape, all[a], all[b])),
                               to_string(plan_in(setting, shape, all[b], all[c])));
  return count == 0 ? "" : fmt::format("{} detours\n{}", count, found);
}

std::vector<Sharding> sample_of(std::vector<Sharding> all, size_t count) {
  uint64_t state = 7;
  for (size_t i = 0; i < std::min(count, all.size()); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    std::swap(all[i], all[i + (state >> 33) % (all.size() - i)]);
  }
  all.resize(std::min(count, all.size()));
  return all;
}

// How many layouts: fewer of them for sanitizers, as triples are many and take the same paths.
size_t some(size_t full, size_t quick) {
  if (is_long()) return full;
  return random_load(8) == 8 ? quick : quick / 2;
}

// What holders must send at least: the elements of a tile that somebody lacks, shared by those who
// hold the tile. By looking at every element.
int64_t bytes_leaving(const Setting& setting, const Shape& shape, const Sharding& from,
                      const Sharding& to) {
  const auto holds = [&](const Sharding& s, int64_t device, const Dims& at) {
    const Box box = shard_box(shape, s, device);
    for (size_t d = 0; d < at.size(); ++d)
      if (at[d] < box.start[d] || at[d] >= box.start[d] + box.size[d]) return false;
    return true;
  };
  std::map<std::vector<int64_t>, int64_t> lacked;  // elements, by who holds them
  for (int64_t i = 0; i < shape.elements_count(); ++i) {
    const Dims at{i / (shape.dims[1] * shape.dims[2]), i / shape.dims[2] % shape.dims[1],
                  i % shape.dims[2]};
    std::vector<int64_t> holders;
    bool lacking = false;
    for (int64_t device = 0; device < setting.devices; ++device) {
      if (holds(from, device, at))
        holders.push_back(device);
      else
        lacking = lacking || holds(to, device, at);
    }
    if (lacking) ++lacked[holders];
  }
  int64_t most = 0;
  for (const auto& [holders, count] : lacked)
    most = std::max(most, ceil_div(count, std::ssize(holders)) * dtype_size(shape.dtype));
  return most;
}

}  // namespace

// A decomposition exists where neither what the device that is worst off lacks nor what a holder
// must send is as much as the all-gather sends: then there is room for a cheaper way. In uneven
// dims steps send padding, and there has to be twice the room.
TEST_CASE("reshard pairs: no more bytes than an all-gather, fewer wherever there is a way to") {
  int64_t fewer = 0;
  const int64_t pairs = for_pairs(400, [&](const Setting& setting, const Shape& shape,
                                           const Sharding& from, const Sharding& to) {
    const std::string wrong = planned_wrongly(setting, shape, from, to);
    if (!wrong.empty()) FAIL_CHECK(title(setting, shape, from, to) << "\n" << wrong);
    const int64_t gather = gathered_bytes(setting, shape, from, to);
    const int64_t room = shape.dims == setting.even ? 1 : 2;
    if (room * bytes_lacking(shape, from, to, setting.devices) >= gather) return;
    if (plan_in(setting, shape, from, to).cost.bytes < gather)
      ++fewer;
    else if (room * bytes_leaving(setting, shape, from, to) < gather)
      FAIL_CHECK(title(setting, shape, from, to));
  });
  CHECK(pairs > (is_long() ? 25'000 : random_load(4'000)));
  CHECK(fewer > pairs / 2);
}

TEST_CASE("reshard pairs: data arrives and as many bytes are counted as were planned") {
  for_pairs(150, [&](const Setting& setting, const Shape& shape, const Sharding& from,
                     const Sharding& to) {
    const std::string wrong = moved_wrongly(setting, shape, from, to);
    if (!wrong.empty()) FAIL_CHECK(title(setting, shape, from, to) << "\n" << wrong);
  });
}

TEST_CASE("reshard pairs: a detour over any other layout of a mesh is never cheaper") {
  const Setting& cube = settings()[1];
  for (const Dims& dims : {cube.even, cube.uneven, cube.tiny, Dims{3, 1, 5}})
    CHECK(cheaper_detours(cube, Shape(DType::f32, dims),
                          sample_of(layouts(cube), some(200, dims == cube.even ? 110 : 60))) == "");
  const Setting& six = settings()[2];
  for (const Dims& dims : {six.even, six.uneven, six.tiny, Dims{7, 5, 9}, Dims{8, 6, 12}})
    CHECK(cheaper_detours(six, Shape(DType::f32, dims), sample_of(layouts(six), some(200, 34))) ==
          "");
  Setting four = settings()[3];
  four.more.clear();  // the layouts of four devices in three orders
  for (const Dims& dims : {four.even, four.uneven, four.tiny, Dims{3, 1, 5}, Dims{3, 3, 1}})
    CHECK(cheaper_detours(four, Shape(DType::f32, dims), sample_of(layouts(four), some(200, 30))) ==
          "");
}

TEST_CASE("reshard pairs: a detour over some of the devices is never cheaper") {
  Setting both = settings()[1];
  std::vector<Sharding> all = layouts(both);
  both.orders = {list_order({0, 1, 2, 3})};
  both.chains = settings()[3].chains;
  both.more = {"{maximal device=0}", "{maximal device=5}"};
  for (const Sharding& s : layouts(both)) all.push_back(s);
  CHECK(cheaper_detours(both, Shape(DType::f32, both.even),
                        sample_of(std::move(all), some(200, 50))) == "");
}

namespace {

// A sample of layouts of two orders of all eight devices, of two orders of four of them, of other
// sets, some of a number of devices that does not divide eight, and of single devices.
std::vector<Sharding> mixed_sample(size_t count) {
  Setting mixed = settings()[3];
  mixed.orders.push_back(iota_order(8));
  std::vector<Sharding> all = layouts(mixed);
  mixed.orders = {list_order({0, 3, 1, 6, 2, 7, 5, 4}), iota_order(8)};
  mixed.chains = settings()[1].chains;
  mixed.more = {"{devices=[6,1,1]0,1,2,4,5,7}", "{devices=[1,2,3]7,5,4,2,1,0}",
                "{devices=[1,1,5]<=[5]}", "{devices=[1,1,2]<=[2]}", "{maximal device=0}"};
  for (const Sharding& s : layouts(mixed))
    if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
  REQUIRE(all.size() > count);
  return sample_of(std::move(all), count);
}

}  // namespace

TEST_CASE("reshard pairs: a detour over other orders and other devices is never cheaper") {
  CHECK(cheaper_detours(settings()[3], Shape(DType::f32, {8, 8, 16}), mixed_sample(some(60, 40))) ==
        "");
}

TEST_CASE("reshard pairs: a detour over another order of all devices is never cheaper") {
  const std::vector<DeviceOrder> orders{iota_order(8), list_order({0, 3, 1, 6, 2, 7, 5, 4}),
                                        list_order({7, 6, 5, 4, 3, 2, 1, 0})};
  for (size_t i = 0; i < 2; ++i) {
    Setting mixed = settings()[i];
    mixed.orders = orders;
    CHECK(cheaper_detours(mixed, Shape(DType::f32, mixed.even),
                          sample_of(layouts(mixed), some(200, 30))) == "");
  }
}

TEST_CASE("reshard pairs: what is sent on is in place before, and arrives") {
  const Setting& eight = settings()[3];
  const Shape shape(DType::f32, {8, 8, 16});
  const Sharding from = parse_sharding("{devices=[4,1,1]1,2,5,6}", kRank);
  const Sharding to = parse_sharding("{devices=[1,1,2,4]<=[8] last_tile_dim_replicate}", kRank);
  // Each holder is wanted by all: without relays it sends seven times what it has.
  CHECK(plan_in(eight, shape, from, to).cost.bytes <= 2304);
  for (const Dims& dims : {Dims{8, 8, 16}, Dims{5, 7, 9}})
    CHECK(moved_wrongly(eight, Shape(DType::f32, dims), from, to) == "");
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
