// Every op of the table, partitioned: every sharding of each parameter and of the result alone on
// several meshes, and seeded random combinations; uneven sizes, poisoned tails, bit for bit.

#include <cstdlib>
#include <set>

#include "gspmd/ir/text.h"
#include "load.h"
#include "ops/samples.h"
#include "passes/conformance_programs.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace partition_conformance_test {
namespace {

// Beside the samples of the op table: sizes and forms where partitioning has cases. Computations
// `sum` and `most` on f32 are there.
const Program kPrograms[] = {
    {"add", "a = f32[5,8] parameter(0)\n b = f32[5,8] parameter(1)\n ROOT r = f32[5,8] add(a, b)"},
    {"add one value twice", "a = f32[5,8] parameter(0)\n ROOT r = f32[5,8] add(a, a)"},
    {"maximum s32",
     "a = s32[6,7] parameter(0)\n b = s32[6,7] parameter(1)\n ROOT r = s32[6,7] maximum(a, b)"},
    {"select",
     "p = pred[6,4] parameter(0)\n a = f32[6,4] parameter(1)\n b = f32[6,4] parameter(2)\n ROOT r "
     "= f32[6,4] select(p, a, b)"},
    {"select by a scalar",
     "p = pred[] parameter(0)\n a = f32[6,4] parameter(1)\n b = f32[6,4] parameter(2)\n ROOT r = "
     "f32[6,4] select(p, a, b)"},
    {"compare",
     "a = s32[9,4] parameter(0)\n b = s32[9,4] parameter(1)\n ROOT r = pred[9,4] compare(a, b), "
     "direction=LT"},
    {"convert", "a = s32[9,4] parameter(0)\n ROOT r = f32[9,4] convert(a)"},
    {"broadcast", "a = f32[5,4] parameter(0)\n ROOT r = f32[5,3,4] broadcast(a), dimensions={0,2}"},
    {"broadcast a scalar",
     "a = f32[] parameter(0)\n ROOT r = f32[5,8] broadcast(a), dimensions={}"},
    {"transpose",
     "a = f32[5,4,6] parameter(0)\n ROOT r = f32[6,5,4] transpose(a), dimensions={2,0,1}"},
    {"reshape merges dims", "a = f32[4,6,5] parameter(0)\n ROOT r = f32[24,5] reshape(a)"},
    {"reshape splits a dim", "a = f32[24,5] parameter(0)\n ROOT r = f32[2,12,5] reshape(a)"},
    {"reshape mixes dims", "a = f32[6,4] parameter(0)\n ROOT r = f32[8,3] reshape(a)"},
    {"reshape adds dims of one", "a = f32[7,4] parameter(0)\n ROOT r = f32[7,1,4,1] reshape(a)"},
    {"reduce-sum",
     "a = f32[5,7,4] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[5,4] reduce(a, z), "
     "dimensions={1}, to_apply=sum"},
    {"reduce-sum of two dims",
     "a = f32[5,7,4] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[7] reduce(a, z), "
     "dimensions={0,2}, to_apply=sum"},
    {"reduce-max",
     "a = f32[5,7,4] parameter(0)\n z = f32[] constant(-inf)\n ROOT r = f32[7,4] reduce(a, z), "
     "dimensions={0}, to_apply=most"},
    {"dot",
     "a = f32[6,7] parameter(0)\n b = f32[7,8] parameter(1)\n ROOT r = f32[6,8] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"batched dot",
     "a = f32[4,3,6,5] parameter(0)\n b = f32[4,3,7,5] parameter(1)\n ROOT r = f32[4,3,6,7] dot(a, "
     "b), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, "
     "rhs_contracting_dims={3}"},
    {"dot over two dims",
     "a = f32[3,4,6] parameter(0)\n b = f32[6,8,4] parameter(1)\n ROOT r = f32[3,8] dot(a, b), "
     "lhs_contracting_dims={1,2}, rhs_contracting_dims={2,0}"},
    {"concatenate",
     "a = f32[5,3] parameter(0)\n b = f32[5,4] parameter(1)\n ROOT r = f32[5,7] concatenate(a, b), "
     "dimensions={1}"},
    {"slice", "a = f32[6,9] parameter(0)\n ROOT r = f32[6,3] slice(a), slice={[0:6], [1:9:3]}"},
    {"pad",
     "a = f32[6,5] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[6,11] pad(a, z), "
     "padding=0_0x1_1_1"},
    {"reverse", "a = f32[6,5] parameter(0)\n ROOT r = f32[6,5] reverse(a), dimensions={1}"},
    {"dynamic-slice",
     "a = f32[6,9] parameter(0)\n z = s32[] constant(0)\n i = s32[] parameter(1)\n ROOT r = "
     "f32[6,4] dynamic-slice(a, z, i), dynamic_slice_sizes={6,4}"},
    {"dynamic-update-slice",
     "a = f32[6,9] parameter(0)\n u = f32[6,4] parameter(1)\n z = s32[] constant(0)\n i = s32[] "
     "parameter(2)\n ROOT r = f32[6,9] dynamic-update-slice(a, u, z, i)"},
    {"iota", "ROOT r = s32[9,8] iota(), iota_dimension=0"},
    {"constant", "ROOT r = f32[2,4] constant({{1,2,3,4},{5,6,7,8}})"},
    {"gather rows",
     "t = f32[10,6] parameter(0)\n i = s32[5,4] parameter(1)\n ROOT r = f32[5,4,6] gather(t, i), "
     "offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, "
     "slice_sizes={1,6}"},
    {"gather by two indices",
     "t = f32[6,5,4] parameter(0)\n i = s32[7,2] parameter(1)\n ROOT r = f32[7,4] gather(t, i), "
     "offset_dims={1}, collapsed_slice_dims={0,1}, start_index_map={1,0}, index_vector_dim=1, "
     "slice_sizes={1,1,4}"},
    {"gather windows",
     "t = f32[6,8] parameter(0)\n i = s32[7,1] parameter(1)\n ROOT r = f32[7,3,8] gather(t, i), "
     "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, "
     "slice_sizes={3,8}"},
    {"gather with batching dims",
     "t = f32[6,9,4] parameter(0)\n i = s32[6,5,1] parameter(1)\n ROOT r = f32[6,5,4] gather(t, "
     "i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, "
     "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, "
     "slice_sizes={1,1,4}"},
    {"scatter-add rows",
     "t = f32[10,6] parameter(0)\n i = s32[5,4] parameter(1)\n u = f32[5,4,6] parameter(2)\n ROOT "
     "r = f32[10,6] scatter(t, i, u), update_window_dims={2}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=sum"},
    {"scatter-add into zeros",
     "z = f32[] constant(0)\n t = f32[10,6] broadcast(z), dimensions={}\n i = u32[5,4] "
     "parameter(0)\n u = f32[5,4,6] parameter(1)\n ROOT r = f32[10,6] scatter(t, i, u), "
     "update_window_dims={2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
     "index_vector_dim=2, to_apply=sum"},
    {"scatter-max with two indices",
     "t = f32[6,5,4] parameter(0)\n i = s32[7,2] parameter(1)\n u = f32[7,4] parameter(2)\n ROOT r "
     "= f32[6,5,4] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0,1}, "
     "scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=most"},
    {"scatter with batching dims",
     "t = f32[6,9,4] parameter(0)\n i = s32[6,5,1] parameter(1)\n u = f32[6,5,4] parameter(2)\n "
     "ROOT r = f32[6,9,4] scatter(t, i, u), update_window_dims={2}, inserted_window_dims={1}, "
     "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
     "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=sum"},
    {"sums of partial dots",
     "a = f32[6,7] parameter(0)\n b = f32[7,8] parameter(1)\n c = f32[7,8] parameter(2)\n x = "
     "f32[6,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n y = f32[6,8] dot(a, "
     "c), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n n = f32[6,8] negate(y)\n s = "
     "f32[6,8] add(x, n)\n t = f32[8,6] transpose(s), dimensions={1,0}\n k = f32[] constant(3)\n "
     "kb = f32[8,6] broadcast(k), dimensions={}\n m = f32[8,6] multiply(t, kb)\n ROOT r = f32[48] "
     "reshape(m)"},
    {"a partial dot read twice",
     "a = f32[6,7] parameter(0)\n b = f32[7,8] parameter(1)\n x = f32[6,8] dot(a, b), "
     "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n y = f32[6,8] add(x, x)\n z = f32[6,8] "
     "multiply(x, y)\n ROOT r = (f32[6,8], f32[6,8]) tuple(y, z)"},
    {"while",
     "a = f32[6,4] parameter(0)\n b = f32[6,4] parameter(1)\n z = s32[] constant(0)\n t = (s32[], "
     "f32[6,4], f32[6,4]) tuple(z, a, b)\n w = (s32[], f32[6,4], f32[6,4]) while(t), "
     "condition=less, body=step\n ROOT r = f32[6,4] get-tuple-element(w), index=1"},
    {"call and tuple",
     "a = f32[6,4] parameter(0)\n b = f32[6,4] parameter(1)\n c = f32[6,4] call(a, b), "
     "to_apply=both\n t = (f32[6,4], f32[6,4]) tuple(a, c)\n o = (f32[6,4], f32[6,4]) "
     "opt-barrier(t)\n ROOT r = f32[6,4] get-tuple-element(o), index=1"},
};

std::string module_text(const Program& program) {
  return std::string(R"(HloModule m
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
most { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] maximum(a, b) }
both { a = f32[6,4] parameter(0)
 b = f32[6,4] parameter(1)
 ROOT s = f32[6,4] subtract(a, b) }
less { p = (s32[], f32[6,4], f32[6,4]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] constant(3)
 ROOT c = pred[] compare(i, n), direction=LT }
step { p = (s32[], f32[6,4], f32[6,4]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 x = f32[6,4] get-tuple-element(p), index=1
 y = f32[6,4] get-tuple-element(p), index=2
 o = s32[] constant(1)
 j = s32[] add(i, o)
 z = f32[6,4] add(x, y)
 ROOT t = (s32[], f32[6,4], f32[6,4]) tuple(j, z, x) }
)") + order_computations() +
         "ENTRY e {\n" + program.body + "\n}\n";
}

// All ways to put each axis of a mesh on one of `rank` dims or on none.
std::vector<Sharding> all_shardings(const Mesh& mesh, int64_t rank) {
  std::vector<Sharding> result;
  int64_t count = 1;
  for (int64_t a = 0; a < mesh.rank(); ++a) count *= rank + 1;
  for (int64_t code = 0; code < count; ++code) {
    std::vector<std::vector<int64_t>> dims(static_cast<size_t>(rank));
    int64_t rest = code;
    for (int64_t a = 0; a < mesh.rank(); ++a, rest /= rank + 1)
      if (const int64_t d = rest % (rank + 1); d < rank) {
        auto& list = dims[static_cast<size_t>(d)];
        list.insert(a % 2 ? list.begin() : list.end(), a);
      }
    result.push_back(mesh_sharding(mesh, dims).with_mesh(nullptr));
  }
  return result;
}

Sharding random_sharding(const std::vector<std::vector<Sharding>>& by_rank, int64_t rank,
                         uint64_t r) {
  const auto& list = by_rank.at(static_cast<size_t>(rank));
  return list[r % list.size()];
}

// On one device, or split over the last ones of the mesh by one dim.
Sharding on_few(const Mesh& mesh, int64_t rank, uint64_t r) {
  const int64_t devices = mesh.num_devices();
  const auto first = static_cast<int64_t>(r % uint64_t(devices));
  if (rank == 0 || r / 64 % 4 == 0) return Sharding::maximal(first);
  std::vector<int64_t> list;
  for (int64_t d = first; d < devices; ++d) list.push_back(d);
  std::vector<Digits> dims(static_cast<size_t>(rank));
  dims[r / 1024 % uint64_t(rank)] = canonical({{std::ssize(list), 1}});
  return Sharding::tiled(list_order(list), std::move(dims));
}

std::vector<Node*> sharded_nodes(const Module& module) {
  std::vector<Node*> nodes;
  for (Node* parameter : module.entry()->parameters())
    if (!parameter->shape.is_tuple) nodes.push_back(parameter);
  Node* root = module.entry()->root();
  if (!root->is(Opcode::parameter) && !leaf_shapes(root->shape).empty()) nodes.push_back(root);
  return nodes;
}

// The leaves of a node that a sharding has to fit, by rank.
int64_t rank_of(const Node& node) { return leaf_shapes(node.shape).at(0).rank(); }

// The sharding on a node; of a tuple on every leaf of the first one's rank.
void annotate(Node& node, const Sharding& s) {
  if (!node.shape.is_tuple) {
    node.sharding = s;
    return;
  }
  std::vector<Sharding> leaves;
  for (const Shape& leaf : leaf_shapes(node.shape))
    leaves.push_back(
        leaf.rank() == rank_of(node) && leaf.dtype != DType::token ? s : Sharding::replicated());
  node.sharding = Sharding::tuple(std::move(leaves));
}

struct Case {
  std::string name;
  std::unique_ptr<Module> module;
  std::vector<Value> arguments;
};

// The op table's samples and the programs above; per-device ops and opaque calls have no partition.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Sample& sample : samples()) {
    if (sample.devices > 1 || sample.opcode == Opcode::partition_id) continue;
    auto module = sample_module(sample);
    const Node& root = *module->entry()->root();
    if (root.op().has(kCollective)) continue;
    // Pairs are joined before; a half of one that stands alone is no value of a program.
    if (root.is(Opcode::async_start) || root.is(Opcode::async_update)) continue;
    auto arguments = sample_arguments(sample, *module, Values::integers, 3);
    cases.push_back({sample.name, std::move(module), std::move(arguments)});
  }
  std::vector<Program> programs = order_programs();
  programs.insert(programs.end(), std::begin(kPrograms), std::end(kPrograms));
  for (const Program& program : programs) {
    auto module = parse_module(module_text(program));
    auto arguments = integer_arguments(*module, 7);
    cases.push_back({program.name, std::move(module), std::move(arguments)});
  }
  return cases;
}

void check(const Case& c, const Module& module, int64_t devices) {
  std::string difference;
  try {
    difference = difference_when_partitioned(module, devices, c.arguments);
  } catch (const std::exception& error) {
    difference = error.what() + std::string("\n") + to_text(module);
  }
  INFO(c.name << "\n" << difference);
  CHECK(difference.empty());
}

const std::vector<Mesh>& meshes() {
  static const std::vector<Mesh> list{Mesh{{"x", 8}},
                                      Mesh{{"x", 2}, {"y", 4}},
                                      Mesh{{"x", 2}, {"y", 2}, {"z", 2}},
                                      Mesh{{"x", 3}},
                                      Mesh{{"x", 5}},
                                      Mesh{{"x", 6}},
                                      Mesh({{"x", 2}, {"y", 2}}, {3, 1, 0, 2})};
  return list;
}

// Of all cases in turn: each, and one in so many (no divisor of their numbers) in a sanitizer
// build.
const bool kAll = random_load(8) == 8;
const int64_t kStride = kAll ? 1 : 31;
const int64_t kStrideOfRandom = kAll ? 1 : 13;

int64_t random_cases() { return std::getenv("GSPMD_LONG") ? 400 : 12; }

}  // namespace

TEST_CASE("each op that can be partitioned has a case", "[conformance]") {
  std::set<Opcode> seen;
  for (const Case& c : all_cases())
    for (const auto& computation : c.module->computations())
      for (const auto& node : computation->nodes()) seen.insert(node->opcode());
  std::string missing;
  for (int64_t i = 0; i < opcode_count(); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const OpInfo& op = op_info(opcode);
    // Of programs per device; refused; or half of a pair that is joined before.
    if (op.has(kCollective) || opcode == Opcode::partition_id || opcode == Opcode::replica_id ||
        !op.evaluate)
      continue;
    const std::string name(opcode_name(opcode));
    if (name.ends_with("-start") || name.ends_with("-update") || name.ends_with("-done")) continue;
    if (!seen.contains(opcode)) missing += " " + name;
  }
  CHECK(missing == "");
}

TEST_CASE("each op equals itself under every sharding of one of its values", "[conformance]") {
  int64_t turn = 0;
  for (const Case& c : all_cases())
    for (const Mesh& mesh : meshes())
      for (size_t which = 0; which < sharded_nodes(*c.module).size(); ++which)
        for (const Sharding& s : all_shardings(mesh, rank_of(*sharded_nodes(*c.module)[which]))) {
          if (turn++ % kStride != 0) continue;
          const auto module = c.module->clone();
          annotate(*sharded_nodes(*module)[which], s);
          check(c, *module, mesh.num_devices());
        }
}

TEST_CASE("each op equals itself under random shardings of all its values", "[conformance]") {
  int64_t turn = 0;
  uint64_t state = 12345;
  const auto next = [&] {
    return (state = state * 6364136223846793005ull + 1442695040888963407ull) >> 33;
  };
  for (const Case& c : all_cases())
    for (const Mesh& mesh : meshes()) {
      std::vector<std::vector<Sharding>> by_rank;
      for (int64_t rank = 0; rank <= 4; ++rank) by_rank.push_back(all_shardings(mesh, rank));
      for (int64_t n = 0; n < random_cases(); ++n) {
        if (turn++ % kStrideOfRandom != 0) continue;
        const auto module = c.module->clone();
        for (Node* node : sharded_nodes(*module)) {
          std::vector<Sharding> leaves;
          for (const Shape& leaf : leaf_shapes(node->shape))
            leaves.push_back(n % 4 == 3 ? on_few(mesh, leaf.rank(), next())
                                        : random_sharding(by_rank, leaf.rank(), next()));
          node->sharding = node->shape.is_tuple ? Sharding::tuple(std::move(leaves)) : leaves.at(0);
        }
        check(c, *module, mesh.num_devices());
      }
    }
}

}  // namespace partition_conformance_test
