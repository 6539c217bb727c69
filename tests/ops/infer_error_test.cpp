// One mistake a row: the shape rules refuse it with the op first.

#include <catch2/catch.hpp>
#include <limits>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "ops/evaluate_cases.h"
#include "ops/samples.h"

namespace gspmd::testing {
namespace {

struct Mistake {
  const char* body;
  const char* message;
};

const std::string kPrelude =
    "a = f32[2,3] parameter(0)\nb = f32[3,2] parameter(1)\ns = f32[] parameter(2)\n"
    "i = s32[4] parameter(3)\nn = s32[] parameter(4)\np = pred[2,3] parameter(5)\nROOT r = ";

void check_mistakes(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    INFO(mistake.body);
    CHECK_THAT(error_of(kPrelude + mistake.body), Catch::Contains(mistake.message));
  }
}

}  // namespace

TEST_CASE("elementwise ops refuse what does not fit") {
  check_mistakes({
      {"f32[2,3] add(a, b)",
       "add: operands f32[2,3] and f32[3,2] differ in dims; reshape or broadcast"},
      {"pred[2,3] add(a, p)",
       "add: operands f32[2,3] and pred[2,3] differ in element type; convert"},
      {"pred[2,3] negate(p)", "negate: an operand is pred[2,3]; it takes numbers"},
      {"f32[2,3] not(a)", "not: an operand is f32[2,3]; it takes integers or pred"},
      {"f32[2,3] and(a, a)", "and: an operand is f32[2,3]"},
      {"f32[2,3] shift-left(a, a)", "shift-left: an operand is f32[2,3]; it takes integers"},
      {"s32[4] exponential(i)", "exponential: an operand is s32[4]; it takes floating point"},
      {"f32[2,3] select(a, a, a)", "select: the selector is f32[2,3]; it has to be of type pred"},
      {"f32[3,2] select(p, b, b)",
       "select: selector pred[2,3] and operand f32[3,2] differ in dims"},
      {"f32[2,3] clamp(b, a, s)", "clamp: bound f32[3,2] and operand f32[2,3] differ in dims"},
      {"s32[3,2] convert(a)", "convert: operand f32[2,3] and result s32[3,2] differ in dims"},
      {"u8[2,3] bitcast-convert(a)",
       "bitcast-convert: f32[2,3] becomes u8[2,3,4], u8[2,3] is declared"},
      {"f64[2] bitcast-convert(a)", "bitcast-convert: f32[2,3] to f64 needs a last dim of 2"},
      {"pred[2,3] bitcast-convert(a)",
       "bitcast-convert: f32[2,3] becomes pred[2,3,32], pred[2,3] is declared"},
      {"u8[2,3] bitcast-convert(p)", "bitcast-convert: pred[2,3] to u8 needs a last dim of 8"},
      {"c64[2] bitcast-convert(a)", "bitcast-convert: f32[2,3] cannot become c64[2]; take real"},
      {"pred[4,4] bitcast(i)", "bitcast: s32[4] cannot become pred[4,4]; compare it with zero"},
      {"s32[4] add(i, i, i)", "add"},
  });
}

TEST_CASE("shape ops refuse what does not fit") {
  check_mistakes({
      {"f32[7] reshape(a)", "reshape: operand f32[2,3] has 6 elements, result f32[7] has 7"},
      {"s32[6] reshape(a)", "reshape: operand f32[2,3] and result s32[6] differ in element type"},
      {"f32[2,3,4] broadcast(a), dimensions={0}",
       "broadcast: dimensions has 1 entries, 2 are needed"},
      {"f32[2,3,4] broadcast(a), dimensions={0,5}",
       "broadcast: dimensions={0,5} names dim 5, which is outside the 3"},
      {"f32[2,3,4] broadcast(a), dimensions={0,0}",
       "broadcast: dimensions={0,0} names dim 0 twice"},
      {"f32[2,3,4] broadcast(a), dimensions={0,2}",
       "broadcast: dim 1 of operand f32[2,3] is dim 2 of result f32[2,3,4]"},
      {"f32[3,2] transpose(a), dimensions={1,1}", "transpose: dimensions={1,1} names dim 1 twice"},
      {"f32[2,3] reverse(a), dimensions={-1}", "reverse: dimensions={-1} names dim -1"},
      {"f32[2,5] concatenate(a, b), dimensions={1}",
       "concatenate: operands f32[2,3] and f32[3,2] differ outside dim 1"},
      {"f32[2,3] pad(a, n), padding=0_0x0_0",
       "pad: operand f32[2,3] and padding value s32[] differ in element type"},
      {"f32[2,3] pad(a, s), padding=0_0", "pad: padding has 1 entries, 2 are needed"},
      {"f32[2,3] pad(a, s), padding=0_0x-9_0",
       "pad: dim 1 of f32[2,3] padded by -9_0_0 has no valid size"},
      {"f32[2,3] pad(a, s), padding=0_0x9223372036854775807_1", "pad: dim 1 of f32[2,3] padded by"},
      {"f32[2,3] slice(a), slice={[0:2], [0:4]}",
       "slice: [0:4:1] of dim 1 of f32[2,3] needs 0 <= start <= limit <= 3"},
      {"f32[2,3] slice(a), slice={[0:2], [0:3:0]}", "slice: [0:3:0] of dim 1"},
      {"f32[2,4] dynamic-slice(a, n, n), dynamic_slice_sizes={2,4}",
       "dynamic-slice: size 4 of dim 1 is outside 0 .. 3"},
      {"f32[2,3] dynamic-slice(a, n), dynamic_slice_sizes={2,3}",
       "dynamic-slice: 2 operands are given, it takes 3"},
      {"f32[2,3] dynamic-slice(a, s, s), dynamic_slice_sizes={2,3}",
       "dynamic-slice: start index 0 is f32[]"},
      {"f32[2,3] dynamic-update-slice(a, b, n, n)",
       "dynamic-update-slice: dim 0 of update f32[3,2] is larger"},
      {"f32[2,3] iota(), iota_dimension=2", "iota: iota_dimension=2 is outside the 2 dims"},
      {"pred[2] iota(), iota_dimension=0", "iota: pred[2] cannot count"},
  });
}

TEST_CASE("dot, reduce, gather and scatter refuse what does not fit") {
  check_mistakes({
      {"f32[2,2] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
       "dot: contracting dim 0 of f32[2,3] and dim 0 of f32[3,2] differ in size"},
      {"f32[2,2] dot(a, b), lhs_contracting_dims={1}",
       "dot: 1 contracting dims on the left, 0 on the right"},
      {"f32[2,2] dot(a, b), lhs_contracting_dims={7}, rhs_contracting_dims={0}", "names dim 7"},
      {"f32[2] dot(a, b), lhs_batch_dims={1}, rhs_batch_dims={0}, lhs_contracting_dims={1}, "
       "rhs_contracting_dims={0}",
       "names dim 1 twice"},
      {"pred[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "dot: f32[2,3] and f32[3,2] cannot give elements of pred"},
      {"pred[2,3,4] dot(a, i)", "dot: f32[2,3] and s32[4] cannot give elements of pred"},
      {"s8[4,4] dot(i, i)", "dot: s32[4] and s32[4] cannot give elements of s8"},
      {"f32[2] reduce(a, n), dimensions={1}, to_apply=sum",
       "reduce: operands f32[2,3] and s32[] differ in element type"},
      {"f32[2] reduce(a, s), dimensions={2}, to_apply=sum", "reduce: dimensions={2} names dim 2"},
      {"f32[2] reduce(a, s), dimensions={1}, to_apply=sum_s32",
       "reduce: parameter 0 of computation sum_s32 is s32[], it is called with f32[]"},
      {"f32[4,3] gather(a, a), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
       "index_vector_dim=1, slice_sizes={1,3}",
       "gather: the indices are f32[2,3]"},
      {"f32[4,3] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
       "index_vector_dim=3, slice_sizes={1,3}",
       "gather: index_vector_dim=3 is outside 0 .. 1"},
      {"f32[4,3] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0,1}, "
       "index_vector_dim=1, slice_sizes={1,3}",
       "gather: start_index_map={0,1} has 2 entries, the index vectors of s32[4] have 1"},
      {"f32[4,3] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
       "index_vector_dim=1, slice_sizes={2,3}",
       "gather: collapsed dim 0 has slice size 2"},
      {"f32[4,3] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
       "index_vector_dim=1, slice_sizes={1,4}",
       "gather: slice size 4 of dim 1 is outside 0 .. 3"},
      {"f32[4,3] gather(a, i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, "
       "index_vector_dim=1, slice_sizes={1,3}",
       "gather: offset_dims={1} has 1 entries, 2 dims of operand f32[2,3] remain"},
      {"f32[2,3] scatter(a, i, b), update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
       "scatter: dim 0 of updates f32[3,2] and dim 0 of indices s32[4] differ in size"},
      {"f32[2,3] scatter(a, i), update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
       "scatter"},
  });
}

TEST_CASE("control ops refuse what does not fit") {
  check_mistakes({
      {"f32[2,3] get-tuple-element(a), index=0",
       "get-tuple-element: the operand is f32[2,3], it has to be a tuple"},
      {"f32[3,2] custom-call(a), custom_call_target=\"Sharding\", sharding={replicated}",
       "custom-call: Sharding of f32[2,3] is declared as f32[3,2]"},
      {"f32[2,3] custom-call(a), custom_call_target=\"Sharding\", sharding={replicated}, "
       "backend_config=\"unspecified_dims=[0,2]\"",
       "custom-call: unspecified_dims of Sharding \"r\" names dim 2; write unspecified_dims=[0,1] "
       "with dims of f32[2,3], which are 0 to 1"},
      {"f32[2,3] custom-call(a), custom_call_target=\"Sharding\", sharding={replicated}, "
       "backend_config=\"unspecified_dims=[-1]\"",
       "has '-' where a dim is expected"},
      {"f32[2,3] custom-call(a), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}, "
       "backend_config=\"unspecified_dims=[0\"",
       "custom-call: unspecified_dims of SPMDFullToShardShape \"r\""},
      {"f32[] custom-call(s), custom_call_target=\"Sharding\", sharding={replicated}, "
       "backend_config=\"unspecified_dims=[0]\"",
       "with dims of f32[], which has none"},
      {"f32[4,3] all-gather(a), replica_groups={{0,1},{2}}, dimensions={0}",
       "all-gather: replica groups of 2 and 1 devices"},
      {"f32[2,3] all-gather(a), replica_groups={{0,1}}, dimensions={}",
       "all-gather: dimensions={} has to name one dim"},
      {"f32[2,1] reduce-scatter(a), replica_groups={{0,1}}, dimensions={1}, to_apply=sum",
       "reduce-scatter: dim 1 of f32[2,3] does not divide by the 2 devices"},
      {"f32[2,3] all-to-all(a), replica_groups={{0,1}}, dimensions={1}",
       "all-to-all: dim 1 of f32[2,3] does not divide"},
      {"(f32[2,3]) all-to-all(a), replica_groups={{0,1}}",
       "all-to-all: 1 operands for groups of 2 devices"},
  });
}

// The reader of text finds these before the ops do; builders have only the ops.
TEST_CASE("builders refuse called computations, groups and sizes that do not fit") {
  const std::unique_ptr<Module> module =
      parse_module(with_entry(kPrelude + "f32[2,3] negate(a)", 4));
  Computation& c = *module->entry();
  Node* const a = c.parameters()[0];
  Node* const s = c.parameters()[2];
  const auto refused = [&](Opcode opcode, std::vector<Node*> operands, const Attributes& attrs,
                           Shape declared, std::vector<const char*> called, const char* message) {
    std::vector<Computation*> computations;
    for (const char* name : called) computations.push_back(module->find(name));
    CHECK_THROWS_WITH(emit(c, opcode, operands, attrs, declared, computations),
                      Catch::Contains(message));
  };
  Attributes rows;
  rows.dimensions = {1};
  refused(Opcode::reduce, {a, s}, rows, {}, {"largest_at"},
          "reduce: computation largest_at has 4 parameters, it is called with 2");
  refused(Opcode::reduce, {a, s}, rows, {}, {"sum_s32"},
          "reduce: parameter 0 of computation sum_s32 is s32[]");
  refused(Opcode::reduce, {a, s}, rows, {}, {}, "reduce: 0 computations are called, it calls 1");
  refused(Opcode::call, {a}, {}, {}, {"scaled_sum"},
          "call: computation scaled_sum has 2 parameters, it is called with 1");
  refused(Opcode::call, {a, a}, {}, {}, {"scaled_sum"},
          "call: parameter 0 of computation scaled_sum is f32[3,4], it is called with f32[2,3]");
  refused(Opcode::while_, {a}, {}, {}, {"below_ten", "next"},
          "while: parameter 0 of computation below_ten");
  Attributes groups;
  groups.replica_groups.edit().lists = {{0, 0}};
  refused(Opcode::all_reduce, {a}, groups, {}, {"sum"},
          "all-reduce: device 0 is twice in replica_groups");
  groups.replica_groups.edit().lists = {{0, -1}};
  refused(Opcode::all_reduce, {a}, groups, {}, {"sum"},
          "all-reduce: device -1 in replica_groups is negative");
  groups.replica_groups = ReplicaGroups{{}, 2, 2, {3}, {}};
  refused(Opcode::all_reduce, {a}, groups, {}, {"sum"},
          "all-reduce: replica_groups [2,2]<=[3] do not hold");
  groups.replica_groups = ReplicaGroups{{}, 2, 2, {2, 2}, {0, 0}};
  refused(Opcode::all_reduce, {a}, groups, {}, {"sum"},
          "all-reduce: replica_groups T={0,0} names dim 0 twice");
  Attributes pairs;
  pairs.permutation.edit().pairs = {{0, 1}, {0, 2}};
  refused(Opcode::collective_permute, {a}, pairs, {}, {},
          "collective-permute: device 0 is a source twice");
  Attributes type;
  type.compare_type = "BOGUS";
  refused(Opcode::compare, {a, a}, type, {}, {}, "compare: type=BOGUS is none of");
  refused(Opcode::broadcast, {s}, {}, Shape(DType::f32, {int64_t(1) << 62, 8}), {},
          "broadcast: the result f32[4611686018427387904,8] has more bytes than can be addressed");
}

TEST_CASE("what an op cannot compute is refused when it runs") {
  CHECK_THAT(error_of("a = c64[2] constant({(1,2),(3,4)})\nROOT r = c64[2] remainder(a, a)"),
             Catch::Contains("it takes real numbers"));
  CHECK_THAT(
      error_of("a = f32[] constant(1)\nROOT r = f32[] custom-call(a), custom_call_target=\"Mine\""),
      Catch::Contains("custom-call: target \"Mine\" is not known"));
  CHECK_THAT(error_of("ROOT r = u32[] partition-id()"),
             Catch::Contains("partition-id: \"r\" has no meaning on one device"));
  CHECK_THAT(error_of("a = f32[] constant(1)\nROOT r = f32[] all-reduce(a), channel_id=1, "
                      "replica_groups={}, to_apply=sum"),
             Catch::Contains("all-reduce: \"r\" has no meaning on one device"));
  CHECK_THAT(error_of("ROOT a = f32[] parameter(0)"),
             Catch::Contains("evaluate: 0 arguments are given, main takes 1"));
}

TEST_CASE("hostile attributes are refused or run, never more") {
  std::mt19937_64 random(99);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> values = {-1, 0, 1, 2, 3, 5, 7, -kMax - 1, kMax, int64_t(1) << 61};
  const auto any = [&] { return values[random() % values.size()]; };
  const auto damage = [&](Dims& dims) {
    if (random() % 4 == 0) dims.resize(random() % 5, 0);
    if (!dims.empty()) dims[random() % dims.size()] = any();
  };
  int refused = 0;
  int ran = 0;
  for (const Sample& sample : samples()) {
    const std::unique_ptr<Module> module = sample_module(sample);
    const std::vector<Value> arguments = sample_arguments(sample, *module, Values::integers, 2);
    Node& node = *module->entry()->root();
    const Attributes good = node.attrs;
    const Shape good_shape = node.shape;
    for (int round = 0; round < 60; ++round) {
      node.attrs = good;
      node.shape = good_shape;
      for (Dims* dims :
           {&node.attrs.dimensions, &node.attrs.starts.edit(), &node.attrs.limits.edit(),
            &node.attrs.strides.edit(), &node.attrs.slice_sizes.edit(),
            &node.attrs.dot.edit().lhs_batch, &node.attrs.dot.edit().rhs_contracting,
            &node.attrs.gather.edit().offset_dims, &node.attrs.gather.edit().collapsed_slice_dims,
            &node.attrs.gather.edit().start_index_map,
            &node.attrs.gather.edit().operand_batching_dims,
            &node.attrs.scatter.edit().update_window_dims,
            &node.attrs.scatter.edit().inserted_window_dims,
            &node.attrs.scatter.edit().scatter_dims_to_operand_dims})
        if (!dims->empty() && random() % 2 == 0) damage(*dims);
      for (PaddingDim& padding : node.attrs.padding.edit())
        (random() % 2 == 0   ? padding.low
         : random() % 2 == 0 ? padding.high
                             : padding.interior) = any();
      if (random() % 3 == 0) node.attrs.index = any();
      if (random() % 3 == 0)
        node.attrs.gather.edit().index_vector_dim = node.attrs.scatter.edit().index_vector_dim =
            any();
      if (random() % 3 == 0) damage(node.shape.dims);
      try {
        node.shape = node.op().infer(node);
        if (node.op().factors != nullptr) node.op().factors(node);
        if (sample.devices > 1 || node.is(Opcode::parameter) || node.shape.bytes() > 1 << 20)
          continue;
        evaluate(*module, arguments);
        ++ran;
      } catch (const UserError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 500);
  CHECK(ran > 500);
}

}  // namespace gspmd::testing
