// Products against all ways of laying their loops over the devices (docs/spec/partitioning.md 2.2).
#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "moves/reshard_search.h"
#include "passes/product_ways.h"
#include "passes/spmd_check.h"

namespace gspmd {
namespace {

constexpr ProductKind kKinds[] = {ProductKind::dot, ProductKind::batch_dot,
                                  ProductKind::convolution, ProductKind::reduce};

int64_t bytes_sent(const CompiledModule& compiled) {
  int64_t bytes = 0;
  for (const CollectiveStats& stats : collective_stats(*compiled.local)) bytes += stats.bytes;
  return bytes;
}

CompiledModule compiled(const std::string& text, int64_t devices) {
  PipelineOptions options;
  options.num_devices = devices;
  return run_pipeline(*parse_module(text), options);
}

}  // namespace

TEST_CASE("products: random ones send the least of all ways") {
  const std::vector<std::vector<int64_t>> meshes = {{2, 4}, {2, 2, 2}, {8}};
  int64_t count = 0, least = 0;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed + 77);
    const Product product =
        random_product(kKinds[seed % 4], meshes[seed / 4 % 3], seed / 12 % 2 == 0, random);
    const ProductProgram program = program_of(product);
    const ProductCost best = least_way(product, program.result, program.cost.work);
    INFO(program.cost.bytes << " bytes, " << best.bytes << " by " << best.layout << "\n"
                            << product.text << program.text);
    CHECK(2 * program.cost.bytes <= 3 * best.bytes);
    ++count;
    least += program.cost.bytes <= best.bytes ? 1 : 0;
  }
  CHECK(100 * least >= 95 * count);
}

// Groups of values are laid out one by one, each product by what it sends alone: not always the
// least of all layouts of all of them.
TEST_CASE("products: two in a row agree on what is between them") {
  int64_t sent = 0, least = 0;
  for (uint32_t seed = 0; seed < 16; ++seed) {
    std::mt19937 random(seed + 3);
    const ProductChain chain =
        random_chain(seed % 2 == 0 ? std::vector<int64_t>{2, 4} : std::vector<int64_t>{2, 2, 2},
                     seed / 2 % 2 == 0, random);
    const ChainProgram program = program_of(chain);
    const ProductCost best = least_way(chain, program);
    INFO(program.bytes << " bytes, " << best.bytes << " by " << best.layout << "\n"
                       << chain.text << program.text);
    CHECK(program.bytes <= 2 * best.bytes);
    sent += program.bytes;
    least += best.bytes;
    CHECK(testing::difference_when_partitioned(*parse_module(chain.text), chain.first.num_devices(),
                                               seed) == "");
  }
  CHECK(10 * sent <= 12 * least);
}

// Fewer bytes than these send where each device computes all of the first two: that is no way.
TEST_CASE("products: no layout that several agree on makes devices compute more") {
  const CompiledModule program = compiled(R"(HloModule chain
ENTRY e {
  x = f32[64,8] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  w = f32[8,256] parameter(1), sharding={devices=[1,8]<=[8]}
  v = f32[256,64] parameter(2)
  u = f32[64,64] parameter(3), sharding={devices=[8,1]<=[8]}
  p = f32[64,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[64,256] tanh(p)
  q = f32[64,64] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[64,64] sine(q)
  ROOT r = f32[64,64] dot(s, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)",
                                          8);
  int64_t products = 0;
  for (const auto& node : program.local->entry()->nodes()) {
    if (!node->is(Opcode::dot)) continue;
    INFO(to_text(*node));
    const int64_t summed = node->operand(0)->dim(node->attrs.dot->lhs_contracting.at(0));
    const int64_t whole[] = {64 * 256 * 8, 64 * 64 * 256, 64 * 64 * 64};
    CHECK(8 * node->shape.elements_count() * summed == whole[products++]);
  }
  CHECK(products == 3);
}

TEST_CASE("products: the same instructions on 8 devices and on 65,536") {
  const auto opcodes = [](int64_t x, int64_t y) {
    const CompiledModule program = compiled(fmt::format(R"(HloModule ffn
ENTRY e {{
  x = f32[16384,4096] parameter(0), sharding={{devices=[{0},{1}]<=[{2}]}}
  w = f32[4096,16384] parameter(1), sharding={{devices=[{0},{1}]<=[{2}]}}
  v = f32[16384,4096] parameter(2)
  d = f32[16384,16384] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[16384,16384] tanh(d)
  ROOT o = f32[16384,4096] dot(t, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={{devices=[{0},{1}]<=[{2}]}}
}}
)",
                                                        x, y, x * y),
                                            x * y);
    std::map<std::string, int64_t> counts;
    for (const auto& node : program.local->entry()->nodes())
      ++counts[std::string(opcode_name(node->opcode()))];
    return counts;
  };
  const auto few = opcodes(2, 4);
  CHECK(few.at("reduce-scatter") == 1);
  CHECK(opcodes(16, 32) == few);
  CHECK(opcodes(128, 512) == few);
}

TEST_CASE("products: random ones compute what one device does") {
  const std::vector<std::vector<int64_t>> meshes = {{2, 4}, {2, 3}, {8}, {4, 4}};
  for (uint32_t seed = 0; seed < 64; ++seed) {
    std::mt19937 random(seed + 5);
    const Product product =
        random_product(kKinds[seed % 4], meshes[seed / 4 % 4], seed / 16 % 2 == 0, random);
    const auto module = parse_module(product.text);
    CHECK(testing::difference_when_partitioned(*module, product.num_devices(), seed) == "");
  }
}

// The hidden dim stays split between two products, and the second one's sums are scattered: half
// of x's batch, whole, three quarters of which a device lacks or sums for others.
TEST_CASE("products: a split hidden dim is summed, not exchanged") {
  const CompiledModule program = compiled(R"(HloModule ffn
ENTRY e {
  x = f32[64,1024,512] parameter(0), sharding={devices=[2,1,4]<=[8]}
  w = f32[512,2048] parameter(1), sharding={devices=[2,4]<=[8]}
  v = f32[2048,512] parameter(2)
  d = f32[64,1024,2048] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  t = f32[64,1024,2048] tanh(d)
  ROOT o = f32[64,1024,512] dot(t, v), lhs_contracting_dims={2}, rhs_contracting_dims={0}, sharding={devices=[2,1,4]<=[8]}
}
)",
                                          8);
  const int64_t half = int64_t{4} * 64 * 1024 * 512 / 2, gathered_weight = int64_t{4} * 512 * 512;
  CHECK(bytes_sent(program) <= 2 * half / 4 * 3 + gathered_weight / 2);
}

// What three products read gathered is gathered once, though each alone would go another way.
TEST_CASE("products: what several read is moved for all of them") {
  const std::string one = R"(HloModule m
ENTRY e {
  x = f32[512,64] parameter(0), sharding={devices=[2,4]<=[8]}
  a = f32[64,64] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  b = f32[64,64] parameter(2), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  c = f32[64,64] parameter(3), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  p = f32[512,64] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,4]<=[8]}
  q = f32[512,64] dot(x, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,4]<=[8]}
  r = f32[512,64] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,4]<=[8]}
  ROOT t = (f32[512,64], f32[512,64], f32[512,64]) tuple(p, q, r), sharding={{devices=[2,4]<=[8]}, {devices=[2,4]<=[8]}, {devices=[2,4]<=[8]}}
}
)";
  const int64_t gather = int64_t{4} * 256 * 64 / 4 * 3;
  CHECK(bytes_sent(compiled(one, 8)) == gather);
}

// A weight that no iteration changes is gathered before the loop, not exchanged for in each.
TEST_CASE("products: what a loop does not change is priced by its runs") {
  const auto text = [](int64_t trips) {
    return fmt::format(R"(HloModule m
cond {{
  p = (s32[], f32[8,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  p = (s32[], f32[8,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  h = f32[8,16] get-tuple-element(p), index=1
  w = f32[16,16] get-tuple-element(p), index=2
  y = f32[8,16] dot(h, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={{devices=[4,1]<=[4]}}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[8,16], f32[16,16]) tuple(j, y, w)
}}
ENTRY e {{
  i = s32[] constant(0)
  h = f32[8,16] parameter(0), sharding={{devices=[4,1]<=[4]}}
  w = f32[16,16] parameter(1), sharding={{devices=[4,1]<=[4]}}
  t = (s32[], f32[8,16], f32[16,16]) tuple(i, h, w)
  l = (s32[], f32[8,16], f32[16,16]) while(t), condition=cond, body=body
  ROOT r = f32[8,16] get-tuple-element(l), index=1, sharding={{devices=[4,1]<=[4]}}
}}
)",
                       trips);
  };
  CHECK(bytes_sent(compiled(text(4), 4)) == 4 * 16 * 16 / 4 * 3);
  CHECK(bytes_sent(compiled(text(1), 4)) < 4 * 16 * 16 / 4 * 3);
}

// Layouts in other orders of the devices, and of shards some of which are empty, are dear to reach.
TEST_CASE("products: the moves that a choice of loops plans are bounded", "[dot]") {
  struct Case {
    const char *a, *b, *result;
  };
  const Case cases[] = {
      {"devices=[1,16,1,1]<=[16]",
       "devices=[2,2,2,1,2]0,5,9,10,3,1,8,11,15,6,7,4,14,12,13,2 last_tile_dim_replicate",
       "devices=[1,2,1,2,4]<=[16] last_tile_dim_replicate"},
      {"devices=[1,1,2,4,2]14,0,13,12,6,5,7,10,1,15,4,2,8,3,9,11 last_tile_dim_replicate",
       "devices=[1,1,4,2,2]<=[16] last_tile_dim_replicate",
       "devices=[2,1,2,2,2]<=[16] last_tile_dim_replicate"}};
  for (const Case& c : cases) {
    INFO(c.a << " by " << c.b << " as " << c.result);
    const auto module = parse_module(fmt::format(
        "HloModule m\nENTRY e {{\n a = s32[3,2,2,10] parameter(0), sharding={{{}}}\n b = "
        "s32[3,10,2,4] parameter(1), sharding={{{}}}\n ROOT r = s32[3,2,2,4] dot(a, b), "
        "lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,2}}, lhs_contracting_dims={{3}}, "
        "rhs_contracting_dims={{1}}, sharding={{{}}}\n}}\n",
        c.a, c.b, c.result));
    const int64_t before = reshard_moves_looked_at();
    CHECK(testing::difference_when_partitioned(*module, 16, 3).empty());
    CHECK(reshard_moves_looked_at() - before < 1'000'000);
  }
}

}  // namespace gspmd
