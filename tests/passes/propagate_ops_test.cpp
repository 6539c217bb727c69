// Each op, forward and backward, at its level (docs/spec/completion.md 4, 6).

#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace propagate_ops_test {
namespace {

struct Row {
  const char* what;
  const char* body;
  const char* node;
  const char* sharding;
};

void check(const std::vector<Row>& rows, const PropagateOptions& options = {}) {
  for (const Row& row : rows) {
    INFO(row.what << "\n" << row.body);
    CHECK(completes(row.body, row.node, options) == row.sharding);
  }
}

}  // namespace

TEST_CASE("propagate: elementwise ops pass shardings both ways") {
  check({
      {"forward", R"(a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
 b = f32[8,6] tanh(a)
 ROOT out = f32[8,6] copy(b))",
       "b", "{devices=[2,2]<=[4]}"},
      {"backward", R"(a = f32[8,6] parameter(0)
 b = f32[8,6] tanh(a)
 c = f32[8,6] negate(b), sharding={devices=[2,2]<=[4]}
 ROOT out = f32[8,6] copy(c))",
       "b", "{devices=[2,2]<=[4]}"},
      {"uneven sizes too", R"(a = f32[5,6] parameter(0), sharding={devices=[4,1]<=[4]}
 b = f32[5,6] tanh(a)
 ROOT out = f32[5,6] copy(b))",
       "b", "{devices=[4,1]<=[4]}"},
      {"the most specific operand", R"(a = f32[8,6] parameter(0), sharding={replicated}
 b = f32[8,6] parameter(1), sharding={devices=[4,1]<=[4]}
 c = f32[8,6] add(a, b)
 ROOT out = f32[8,6] copy(c))",
       "c", "{devices=[4,1]<=[4]}"},
      {"partial operands merge",
       R"(a = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 b = f32[8,6] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
 c = f32[8,6] add(a, b)
 ROOT out = f32[8,6] copy(c))",
       "c", "{devices=[2,2]<=[4]}"},
      {"partial operands on one axis do not",
       R"(a = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 b = f32[8,6] parameter(1), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}
 c = f32[8,6] add(a, b)
 ROOT out = f32[8,6] copy(c))",
       "c", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
      {"select by a scalar", R"(p = pred[] parameter(0), sharding={replicated}
 a = f32[8,6] parameter(1), sharding={devices=[4,1]<=[4]}
 b = f32[8,6] parameter(2)
 c = f32[8,6] select(p, a, b)
 ROOT out = f32[8,6] copy(c))",
       "c", "{devices=[4,1]<=[4]}"},
      {"compare and convert change the type only",
       R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 b = f32[8] parameter(1)
 c = pred[8] compare(a, b), direction=LT
 d = s32[8] convert(c)
 ROOT out = s32[8] copy(d))",
       "d", "{devices=[4]<=[4]}"},
      {"a constant follows its reader", R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 k = f32[8] constant({1,2,3,4,5,6,7,8})
 c = f32[8] add(a, k)
 ROOT out = f32[8] copy(c))",
       "k", "{devices=[4]<=[4]}"},
      {"an iota follows its reader", R"(a = s32[8] parameter(0), sharding={devices=[4]<=[4]}
 k = s32[8] iota(), iota_dimension=0
 c = s32[8] add(a, k)
 ROOT out = s32[8] copy(c))",
       "k", "{devices=[4]<=[4]}"},
  });
}

TEST_CASE("propagate: broadcast and reduce") {
  check({
      {"broadcast forward comes last", R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 b = f32[8,6] broadcast(a), dimensions={0}
 ROOT out = f32[8,6] copy(b))",
       "b", "{devices=[4,1]<=[4]}"},
      {"replicated values say nothing of a broadcast",
       R"(a = f32[8] parameter(0), sharding={replicated}
 b = f32[8,6] broadcast(a), dimensions={0}
 ROOT out = f32[8,6] copy(b))",
       "b", "none"},
      {"broadcast backward", R"(k = f32[6] constant({1,2,3,4,5,6})
 b = f32[8,6] broadcast(k), dimensions={1}
 c = f32[8,6] copy(b), sharding={devices=[2,2]<=[4]}
 ROOT out = f32[8,6] copy(c))",
       "k", "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
      {"a scalar becomes replicated", R"(k = f32[] constant(1)
 b = f32[8,6] broadcast(k), dimensions={}
 c = f32[8,6] copy(b), sharding={devices=[2,2]<=[4]}
 ROOT out = f32[8,6] copy(c))",
       "k", "{replicated}"},
      {"bias: the product decides, not the bias",
       R"(x = f32[8,4] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 w = f32[4,6] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
 k = f32[6] parameter(2), sharding={devices=[4]<=[4]}
 y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 b = f32[8,6] broadcast(k), dimensions={1}
 z = f32[8,6] add(y, b)
 ROOT out = f32[8,6] copy(z))",
       "b", "{devices=[2,2]<=[4]}"},
      {"reduce drops the summed dim", R"(a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
 z = f32[] constant(0)
 r = f32[6] reduce(a, z), dimensions={0}, to_apply=sum
 ROOT out = f32[6] copy(r))",
       "r", "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
      {"reduce over the only split dim is replicated",
       R"(a = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
 z = f32[] constant(0)
 r = f32[6] reduce(a, z), dimensions={0}, to_apply=sum
 ROOT out = f32[6] copy(r))",
       "r", "{replicated}"},
      {"reduce backward", R"(a = f32[8,6] iota(), iota_dimension=0
 z = f32[] constant(0)
 r = f32[6] reduce(a, z), dimensions={0}, to_apply=sum
 c = f32[6] copy(r), sharding={devices=[4]<=[4]}
 ROOT out = f32[6] copy(c))",
       "a", "{devices=[1,4]<=[4]}"},
      {"the initial value has no say", R"(a = f32[8] parameter(0)
 z = f32[] parameter(1), sharding={replicated}
 r = f32[] reduce(a, z), dimensions={0}, to_apply=sum
 ROOT out = f32[] copy(r))",
       "r", "none"},
  });
}

TEST_CASE("propagate: reduce of several values") {
  const std::string pair = R"(
best { v = f32[] parameter(0)
 i = s32[] parameter(1)
 w = f32[] parameter(2)
 j = s32[] parameter(3)
 c = pred[] compare(v, w), direction=GE
 m = f32[] select(c, v, w)
 k = s32[] select(c, i, j)
 ROOT t = (f32[], s32[]) tuple(m, k) })";
  const auto forward = completed(R"(a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
 n = s32[8,6] iota(), iota_dimension=0
 z = f32[] constant(-inf)
 o = s32[] constant(0)
 r = (f32[6], s32[6]) reduce(a, n, z, o), dimensions={0}, to_apply=best
 m = f32[6] get-tuple-element(r), index=0
 i = s32[6] get-tuple-element(r), index=1
 ROOT out = (f32[6], s32[6]) tuple(m, i))",
                                 {}, pair);
  CHECK(sharding_text(*forward, "r") ==
        "{{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}, "
        "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}}");
  CHECK(sharding_text(*forward, "i") == "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  // The other input adds the dim that the result does not have.
  CHECK(sharding_text(*forward, "n") == "{devices=[2,2]<=[4]}");
}

TEST_CASE("propagate: dims that are moved, cut and joined") {
  check({
      {"transpose forward", R"(a = f32[8,6,4] parameter(0), sharding={devices=[2,1,2]<=[4]}
 t = f32[4,8,6] transpose(a), dimensions={2,0,1}
 ROOT out = f32[4,8,6] copy(t))",
       "t", "{devices=[2,2,1]<=[2,2]T(1,0)}"},
      {"transpose backward", R"(a = s32[8,6,4] iota(), iota_dimension=1
 t = s32[4,8,6] transpose(a), dimensions={2,0,1}
 c = s32[4,8,6] copy(t), sharding={devices=[2,2,1]<=[4]}
 ROOT out = s32[4,8,6] copy(c))",
       "a", "{devices=[2,1,2]<=[2,2]T(1,0)}"},
      {"reverse turns the devices round",
       R"(a = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
 t = f32[8,6] reverse(a), dimensions={0}
 ROOT out = f32[8,6] copy(t))",
       "t", "{devices=[4,1]3,2,1,0}"},
      {"reverse of another dim", R"(a = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
 t = f32[8,6] reverse(a), dimensions={1}
 ROOT out = f32[8,6] copy(t))",
       "t", "{devices=[4,1]<=[4]}"},
      {"reverse backward, twice", R"(a = s32[8,6] iota(), iota_dimension=1
 r = s32[8,6] reverse(a), dimensions={0}
 t = s32[8,6] reverse(r), dimensions={0}
 c = s32[8,6] copy(t), sharding={devices=[2,2]<=[4]}
 ROOT out = s32[8,6] copy(c))",
       "a", "{devices=[2,2]<=[4]}"},
      {"pad keeps the operand's", R"(a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
 z = f32[] constant(0)
 t = f32[10,6] pad(a, z), padding=1_1x0_0
 ROOT out = f32[10,6] copy(t))",
       "t", "{devices=[2,2]<=[4]}"},
      {"pad backward", R"(a = s32[8,6] iota(), iota_dimension=1
 z = s32[] constant(0)
 t = s32[10,6] pad(a, z), padding=1_1x0_0
 c = s32[10,6] copy(t), sharding={devices=[2,2]<=[4]}
 ROOT out = s32[10,6] copy(c))",
       "a", "{devices=[2,2]<=[4]}"},
      {"slice keeps the operand's, cut dims too",
       R"(a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
 t = f32[4,6] slice(a), slice={[2:6], [0:6]}
 ROOT out = f32[4,6] copy(t))",
       "t", "{devices=[2,2]<=[4]}"},
      {"slice backward", R"(a = s32[8,6] iota(), iota_dimension=1
 t = s32[4,6] slice(a), slice={[2:6], [0:6]}
 c = s32[4,6] copy(t), sharding={devices=[2,2]<=[4]}
 ROOT out = s32[4,6] copy(c))",
       "a", "{devices=[2,2]<=[4]}"},
  });
}

TEST_CASE("propagate: dims that are joined, cut and written into") {
  check({
      {"concatenate takes the most specific operand's",
       R"(a = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 b = f32[8,2] parameter(1), sharding={devices=[4,1]<=[4]}
 t = f32[8,8] concatenate(a, b), dimensions={1}
 ROOT out = f32[8,8] copy(t))",
       "t", "{devices=[4,1]<=[4]}"},
      {"concatenate merges no operands",
       R"(a = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 b = f32[8,2] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
 t = f32[8,8] concatenate(a, b), dimensions={1}
 ROOT out = f32[8,8] copy(t))",
       "t", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
      {"concatenate backward, the joined dim too", R"(a = s32[8,6] iota(), iota_dimension=1
 b = s32[8,2] iota(), iota_dimension=1
 t = s32[8,8] concatenate(a, b), dimensions={1}
 c = s32[8,8] copy(t), sharding={devices=[2,2]<=[4]}
 ROOT out = s32[8,8] copy(c))",
       "b", "{devices=[2,2]<=[4]}"},
  });
}

TEST_CASE("propagate: dims cut or written at positions known when the program runs") {
  check({
      {"dynamic-slice drops what it cuts",
       R"(a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
 i = s32[] parameter(1)
 z = s32[] constant(0)
 t = f32[4,6] dynamic-slice(a, i, z), dynamic_slice_sizes={4,6}
 ROOT out = f32[4,6] copy(t))",
       "t", "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
      {"dynamic-slice backward", R"(a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
 b = f32[8,6] copy(a)
 i = s32[] parameter(1)
 z = s32[] constant(0)
 n = s32[8,6] iota(), iota_dimension=0
 t = s32[4,6] dynamic-slice(n, i, z), dynamic_slice_sizes={4,6}
 c = s32[4,6] copy(t), sharding={devices=[2,2]<=[4]}
 ROOT out = s32[4,6] copy(c))",
       "n", "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
      {"indices of a dynamic-slice get nothing",
       R"(a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
 i = s32[] constant(1)
 z = s32[] constant(0)
 t = f32[4,6] dynamic-slice(a, i, z), dynamic_slice_sizes={4,6}
 ROOT out = f32[4,6] copy(t))",
       "i", "none"},
      {"dynamic-update-slice from the operand",
       R"(a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
 u = f32[4,6] parameter(1)
 z = s32[] constant(0)
 t = f32[8,6] dynamic-update-slice(a, u, z, z)
 ROOT out = f32[8,6] copy(t))",
       "t", "{devices=[2,2]<=[4]}"},
      {"dynamic-update-slice from the update", R"(a = s32[8,6] iota(), iota_dimension=0
 u = s32[4,6] parameter(0), sharding={devices=[2,2]<=[4]}
 z = s32[] constant(0)
 t = s32[8,6] dynamic-update-slice(a, u, z, z)
 ROOT out = s32[8,6] copy(t))",
       "a", "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
      {"dynamic-update-slice to the update",
       R"(a = s32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
 u = s32[4,6] iota(), iota_dimension=0
 z = s32[] constant(0)
 t = s32[8,6] dynamic-update-slice(a, u, z, z)
 ROOT out = s32[8,6] copy(t))",
       "u", "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
  });
}

TEST_CASE("propagate: reshape keeps digits that stay contiguous") {
  check({
      {"a kept dim, uneven", R"(a = f32[5,4,6] parameter(0), sharding={devices=[2,2,1]<=[4]}
 r = f32[5,24] reshape(a)
 ROOT out = f32[5,24] copy(r))",
       "r", "{devices=[2,2]<=[4]}"},
      {"dims of one come and go", R"(a = f32[5,1,6] parameter(0), sharding={devices=[4,1,1]<=[4]}
 r = f32[1,5,6,1] reshape(a)
 ROOT out = f32[1,5,6,1] copy(r))",
       "r", "{devices=[1,4,1,1]<=[4]}"},
      {"merge: the major dim",
       R"(a = f32[4,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 r = f32[24] reshape(a)
 ROOT out = f32[24] copy(r))",
       "r", "{devices=[2,2]<=[4] last_tile_dim_replicate}"},
      {"merge: the minor dim is lost", R"(a = f32[4,6] parameter(0), sharding={devices=[2,2]<=[4]}
 r = f32[24] reshape(a)
 ROOT out = f32[24] copy(r))",
       "r", "{devices=[2,2]<=[4] last_tile_dim_replicate}"},
      {"merge: shards of one row let the minor dim follow",
       R"(a = f32[2,6] parameter(0), sharding={devices=[2,2]<=[4]}
 r = f32[12] reshape(a)
 ROOT out = f32[12] copy(r))",
       "r", "{devices=[4]<=[4]}"},
      {"split: over both", R"(a = f32[24] parameter(0), sharding={devices=[8]<=[8]}
 r = f32[4,6] reshape(a)
 ROOT out = f32[4,6] copy(r))",
       "r", "{devices=[4,2]<=[8]}"},
      {"split: the common part of tiles and dim",
       R"(a = f32[24] parameter(0), sharding={devices=[6]<=[6]}
 r = f32[4,6] reshape(a)
 ROOT out = f32[4,6] copy(r))",
       "r", "{devices=[2,1,3]<=[6] last_tile_dim_replicate}"},
      {"split: uneven tiles are lost", R"(a = f32[15] parameter(0), sharding={devices=[2]<=[2]}
 r = f32[3,5] reshape(a)
 ROOT out = f32[3,5] copy(r))",
       "r", "{replicated}"},
      {"mixed", R"(a = f32[6,4] parameter(0), sharding={devices=[2,1]<=[2]}
 r = f32[8,3] reshape(a)
 ROOT out = f32[8,3] copy(r))",
       "r", "{devices=[2,1]<=[2]}"},
      {"backward", R"(a = s32[4,6] iota(), iota_dimension=0
 r = s32[24] reshape(a)
 c = s32[24] copy(r), sharding={devices=[8]<=[8]}
 ROOT out = s32[24] copy(c))",
       "a", "{devices=[4,2]<=[8]}"},
  });
}

}  // namespace propagate_ops_test
