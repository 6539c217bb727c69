// Random annotations of every kind on every op: a fixed point, given shardings kept, no error.

#include <cstdlib>

#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace propagate_random_test {
namespace {

const char* const kModule = R"(HloModule m
sum { x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT s = f32[] add(x, y) }
best { v = f32[] parameter(0)
 i = s32[] parameter(1)
 w = f32[] parameter(2)
 j = s32[] parameter(3)
 c = pred[] compare(v, w), direction=GE
 m = f32[] select(c, v, w)
 k = s32[] select(c, i, j)
 ROOT t = (f32[], s32[]) tuple(m, k) }
less { p = (s32[], f32[4,6]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] constant(3)
 ROOT c = pred[] compare(i, n), direction=LT }
step { q = (s32[], f32[4,6]) parameter(0)
 j = s32[] get-tuple-element(q), index=0
 v = f32[4,6] get-tuple-element(q), index=1
 o = s32[] constant(1)
 k = s32[] add(j, o)
 w = f32[4,6] tanh(v)
 ROOT t = (s32[], f32[4,6]) tuple(k, w) }
twice { u = f32[4,6] parameter(0)
 ROOT w = f32[4,6] add(u, u) }
ENTRY main {
 a = f32[4,6] parameter(0)
 b = f32[6,8] parameter(1)
 n = s32[8] parameter(2)
 f = f32[] constant(0)
 z = s32[] constant(0)
 d = f32[4,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 t = f32[8,4] transpose(d), dimensions={1,0}
 e = f32[8,4] reverse(t), dimensions={0}
 r = f32[2,4,4] reshape(e)
 l = f32[4] constant({1,2,3,4})
 g = f32[2,4,4] broadcast(l), dimensions={2}
 h = f32[2,4,4] multiply(r, g)
 q = f32[4] reduce(h, f), dimensions={0,1}, to_apply=sum
 ii = s32[4,6] iota(), iota_dimension=1
 ma = (f32[4], s32[4]) reduce(a, ii, f, z), dimensions={1}, to_apply=best
 mv = f32[4] get-tuple-element(ma), index=0
 qq = f32[4] add(q, mv)
 c = f32[4,14] concatenate(a, d), dimensions={1}
 p = f32[6,14] pad(c, f), padding=1_1x0_0
 s = f32[3,7] slice(p), slice={[0:6:2], [3:10]}
 ds = f32[4,7] dynamic-slice(c, z, z), dynamic_slice_sizes={4,7}
 du = f32[4,14] dynamic-update-slice(c, ds, z, z)
 ga = f32[8,8] gather(b, n), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
 sc = f32[6,8] scatter(b, n, ga), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
 tu = (s32[], f32[4,6]) tuple(z, a)
 wh = (s32[], f32[4,6]) while(tu), condition=less, body=step
 ob = (s32[], f32[4,6]) opt-barrier(wh)
 we = f32[4,6] get-tuple-element(ob), index=1
 ca = f32[4,6] call(we), to_apply=twice
 an = f32[4,6] custom-call(ca), custom_call_target="Sharding", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}, backend_config="unspecified_dims=[1]"
 my = f32[4,6] custom-call(an), custom_call_target="mystery"
 ROOT out = (f32[4], f32[3,7], f32[4,14], f32[6,8], f32[4,6]) tuple(qq, s, du, sc, my)
})";

struct Random {
  uint64_t state;
  uint64_t below(uint64_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % n;
  }
};

// Tiles over 8 devices, some dims split, in an order of one of three kinds; or a kind without
// tiles.
Sharding random_sharding(const Shape& shape, Random& random) {
  if (shape.is_tuple) {
    std::vector<Sharding> leaves;
    for (const Shape& leaf : leaf_shapes(shape)) leaves.push_back(random_sharding(leaf, random));
    return Sharding::tuple(std::move(leaves));
  }
  switch (random.below(12)) {
    case 0:
      return Sharding::replicated();
    case 1:
      return Sharding::maximal(static_cast<int64_t>(random.below(8)));
    case 2:
      return Sharding::unknown();
    case 3:
      return random.below(4) ? Sharding::replicated() : Sharding::manual();
    default:
      break;
  }
  const DeviceOrder orders[] = {iota_order(8), iota_order(8), list_order({3, 1, 0, 2, 7, 5, 4, 6}),
                                list_order({0, 1, 4, 5, 2, 3, 6, 7}), iota_order(6)};
  const DeviceOrder order = orders[random.below(5)];
  std::vector<Digits> dims(static_cast<size_t>(shape.rank()));
  Digits manual;
  std::vector<Unreduced> sums;
  int64_t stride = 1;
  while (stride < order->count) {
    const int64_t size = order->count / stride % 2 == 0 ? 2 : order->count / stride;
    const Digit digit{size, stride};
    stride *= size;
    const uint64_t where = random.below(dims.size() + 2);
    if (where < dims.size())
      dims[where].insert(dims[where].begin(), digit);
    else if (random.below(8) == 0)
      manual.insert(manual.begin(), digit);
    else if (random.below(8) == 0)
      sums.push_back({{digit}, Combiner::sum});
  }
  return Sharding::tiled(order, std::move(dims), std::move(manual), std::move(sums));
}

}  // namespace

TEST_CASE("propagate: any annotations of any ops come to rest, and stay as they were given") {
  const int64_t runs = std::getenv("GSPMD_LONG") ? 3000 : 150;
  const auto plain = parse_module(kModule);
  size_t kept = 0;
  for (int64_t run = 0; run < runs; ++run) {
    Random random{static_cast<uint64_t>(run)};
    const auto module = plain->clone();
    std::vector<std::pair<std::string, Sharding>> given;
    for (const auto& computation : module->computations())
      for (const auto& node : computation->nodes()) {
        if (computation->name() == "sum" || computation->name() == "best" || random.below(4) != 0)
          continue;
        node->sharding = random_sharding(node->shape, random);
        const bool entry = computation.get() == module->entry();
        const bool loose = node->is(Opcode::while_) || node->is(Opcode::call) || !entry;
        if (!loose && !node->is_root() && !node->is(Opcode::parameter) && node->name() != "an" &&
            node->name() != "ca" && node->name() != "we" && !node->shape.is_tuple &&
            node->sharding->kind() != ShardingKind::unknown)
          given.emplace_back(node->name(), *node->sharding);
      }
    PropagateOptions options = random.below(2) ? open_boundary() : PropagateOptions{};
    options.spmd = random.below(4) != 0;
    const std::string before = to_text(*module);
    propagate(*module, options);
    verify_module(*module);
    INFO("run " << run << "\n" << before << to_text(*module));
    for (const auto& [name, sharding] : given)
      if (find_node(*module, name)->sharding != sharding) CHECK(name == "");
    kept += given.size();
    const auto again = module->clone();
    if (propagate(*again, options)) CHECK(to_text(*again) == to_text(*module));
  }
  CHECK(kept > 0);
}

}  // namespace propagate_random_test
