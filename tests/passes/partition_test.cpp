#include "gspmd/passes/partition/partition.h"

#include "gspmd/ir/text.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

std::vector<std::string> collectives_of(const std::string& text, int64_t num_devices) {
  const auto module = parse_module(text);
  PipelineOptions options;
  options.num_devices = num_devices;
  options.verify_between = true;
  const std::string difference = difference_when_partitioned(*module, num_devices, 1);
  INFO(difference);
  CHECK(difference.empty());
  return collectives(run_pipeline(*module, options));
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("dot: lhs and rhs free dims on different axes need no communication", "[dot]") {
  CHECK(collectives_of(R"(HloModule m
ENTRY e {
  a = f32[8,6] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  b = f32[6,12] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  ROOT d = f32[8,12] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,4]<=[8]}
})",
                       8)
            .empty());
}

TEST_CASE("dot: a contracted dim split alike costs one all-reduce", "[dot]") {
  CHECK(collectives_of(R"(HloModule m
ENTRY e {
  a = f32[8,6] parameter(0), sharding={devices=[1,4]<=[4]}
  b = f32[6,12] parameter(1), sharding={devices=[4,1]<=[4]}
  ROOT d = f32[8,12] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}
})",
                       4) == Strings{"all-reduce [1,4]<=[4]"});
}

TEST_CASE("dot: a contracted dim split alike and a split result cost one reduce-scatter", "[dot]") {
  CHECK(collectives_of(R"(HloModule m
ENTRY e {
  a = f32[8,6] parameter(0), sharding={devices=[1,4]<=[4]}
  b = f32[6,12] parameter(1), sharding={devices=[4,1]<=[4]}
  ROOT d = f32[8,12] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[4,1]<=[4]}
})",
                       4) == Strings{"reduce-scatter [1,4]<=[4]"});
}

// In f32: the sum of the result sends 2 * 3/4 of it, the operand exchanged 3/16 of it and the
// result gathered 3/4, which for 32 rows are 3,072 bytes and 576 + 1,536, for 3 rows 288 and no
// less than a gather of the operand, 216: not five sevenths.
TEST_CASE("dot: an operand of a contracted dim is exchanged where its sum sends much more",
          "[dot]") {
  const auto with_rows = [](int rows) {
    return collectives_of(fmt::format(R"(HloModule m
ENTRY e {{
  a = f32[{0},24] parameter(0), sharding={{devices=[1,4]<=[4]}}
  b = f32[24,16] parameter(1), sharding={{replicated}}
  ROOT d = f32[{0},16] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={{replicated}}
}})",
                                      rows),
                          4);
  };
  CHECK(with_rows(32) == Strings{"all-to-all [1,4]<=[4]", "all-gather [1,4]<=[4]"});
  CHECK(with_rows(3) == Strings{"all-reduce [1,4]<=[4]"});
}

TEST_CASE("dot: an operand smaller than the result is gathered along the contracted dim", "[dot]") {
  CHECK(collectives_of(R"(HloModule m
ENTRY e {
  a = f32[32,8] parameter(0), sharding={devices=[1,4]<=[4]}
  b = f32[8,16] parameter(1), sharding={replicated}
  ROOT d = f32[32,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}
})",
                       4) == Strings{"all-gather [1,4]<=[4]"});
}

TEST_CASE("a sum of three partial dots costs one all-reduce", "[dot]") {
  CHECK(collectives_of(R"(HloModule m
ENTRY e {
  a = f32[8,7] parameter(0), sharding={devices=[1,4]<=[4]}
  b = f32[7,12] parameter(1), sharding={devices=[4,1]<=[4]}
  c = f32[7,12] parameter(2), sharding={devices=[4,1]<=[4]}
  d = f32[7,12] parameter(3), sharding={devices=[4,1]<=[4]}
  x = f32[8,12] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[8,12] dot(a, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[8,12] dot(a, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[8,12] add(x, y)
  ROOT r = f32[8,12] add(s, z), sharding={replicated}
})",
                       4) == Strings{"all-reduce [1,4]<=[4]"});
}

TEST_CASE("gather: a table split by rows is looked up locally and summed", "[gather]") {
  CHECK(collectives_of(R"(HloModule m
ENTRY e {
  t = f32[10,6] parameter(0), sharding={devices=[4,1]<=[4]}
  i = s32[5,3] parameter(1), sharding={replicated}
  ROOT g = f32[5,3,6] gather(t, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,6}, sharding={replicated}
})",
                       4) == Strings{"all-reduce [1,4]<=[4]"});
}

TEST_CASE("scatter-add: split batches of updates make one partial sum", "[scatter]") {
  CHECK(collectives_of(R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e {
  z = f32[] constant(0)
  t = f32[10,6] broadcast(z), dimensions={}
  i = s32[5,3] parameter(0), sharding={devices=[4,1]<=[4]}
  u = f32[5,3,6] parameter(1), sharding={devices=[4,1,1]<=[4]}
  ROOT g = f32[10,6] scatter(t, i, u), update_window_dims={2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=add, sharding={replicated}
})",
                       4) == Strings{"all-reduce [1,4]<=[4]"});
}

TEST_CASE("scatter-add: a table split by rows keeps what is its own", "[scatter]") {
  CHECK(collectives_of(R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e {
  t = f32[10,6] parameter(0), sharding={devices=[4,1]<=[4]}
  i = s32[5,3] parameter(1), sharding={replicated}
  u = f32[5,3,6] parameter(2), sharding={replicated}
  ROOT g = f32[10,6] scatter(t, i, u), update_window_dims={2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=add, sharding={devices=[4,1]<=[4]}
})",
                       4)
            .empty());
}

TEST_CASE("reduce: an uneven summed dim is masked and an initial value counts once", "[reduce]") {
  CHECK(collectives_of(R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[7,5] parameter(0), sharding={devices=[4,1]<=[4]}
  i = f32[] parameter(1)
  ROOT r = f32[5] reduce(x, i), dimensions={0}, to_apply=add, sharding={replicated}
})",
                       4) == Strings{"all-reduce [1,4]<=[4]"});
}

TEST_CASE("eight heads on six devices are shards of 2,2,2,2,0,0") {
  const Sharding s = parse_sharding("{devices=[1,6]<=[6]}");
  const Shape shape(DType::f32, {3, 8});
  Dims sizes;
  for (int64_t d = 0; d < 6; ++d) sizes.push_back(shard_box(shape, s, d).size[1]);
  CHECK(sizes == Dims{2, 2, 2, 2, 0, 0});
  CHECK(collectives_of(R"(HloModule m
ENTRY e {
  q = f32[4,8,5] parameter(0), sharding={devices=[1,6,1]<=[6]}
  k = f32[4,8,5] parameter(1), sharding={devices=[1,6,1]<=[6]}
  ROOT d = f32[4,4] dot(q, k), lhs_contracting_dims={1,2}, rhs_contracting_dims={1,2}, sharding={replicated}
})",
                       6) == Strings{"all-reduce [1,6]<=[6]"});
}

TEST_CASE("a gathered or scattered minus zero keeps its sign", "[gather]") {
  const std::string negated = R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e {
  p = f32[10,6] parameter(0), sharding={devices=[4,1]<=[4]}
  i = s32[5,3] parameter(1), sharding={devices=[4,1]<=[4]}
  z = f32[10,6] multiply(p, p)
  y = f32[10,6] subtract(z, z)
  t = f32[10,6] negate(y), sharding={devices=[4,1]<=[4]}
  g = f32[5,3,6] gather(t, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,6}, sharding={replicated}
  s = f32[10,6] scatter(t, i, g), update_window_dims={2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=add, sharding={replicated}
  ROOT r = (f32[5,3,6], f32[10,6]) tuple(g, s)
})";
  CHECK(difference_when_partitioned(*parse_module(negated), 4, 5).empty());
}

TEST_CASE("a product of two pending sums waits for both", "[dot]") {
  CHECK(collectives_of(R"(HloModule m
ENTRY e {
  a = f32[7] parameter(0), sharding={devices=[4]<=[4]}
  b = f32[7] parameter(1), sharding={devices=[4]<=[4]}
  x = f32[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  y = f32[] dot(a, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = f32[] multiply(x, y)
})",
                       4)
            .size() == 2);
}
