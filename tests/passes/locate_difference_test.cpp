#include "gspmd/passes/verify/locate_difference.h"

#include "gspmd/ir/text.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

struct Compiled {
  std::unique_ptr<Module> completed;
  PartitionResult partitioned;
  std::vector<Value> arguments;
  int64_t devices;

  explicit Compiled(const std::string& text) {
    const auto module = parse_module(text);
    devices = module->num_partitions;
    PipelineOptions options;
    options.num_devices = devices;
    completed = run_pipeline(*module, options).completed;
    partitioned = partition(*completed, {devices});
    arguments = integer_arguments(*completed, 5);
  }

  // What the partitioner made of the node of this name.
  Node* local(const std::string& name) const {
    int64_t id = -1;
    for (const auto& c : completed->computations())
      for (const auto& node : c->nodes())
        for (const PartitionedValue& value : partitioned.values)
          if (node->name() == name && value.global == node->id()) id = value.local;
    for (const auto& c : partitioned.module->computations())
      for (const auto& node : c->nodes())
        if (node->id() == id) return node.get();
    throw std::runtime_error("no node " + name);
  }

  std::optional<ValueDifference> located(int64_t most_bytes = 1 << 30) const {
    const FirstUnequal first = [](const Array& a, const Array& b) -> std::optional<int64_t> {
      for (int64_t i = 0; i < a.size(); ++i)
        if (a.at(i) != b.at(i)) return i;
      return std::nullopt;
    };
    return locate_difference(*completed, partitioned, arguments, first, {devices, most_bytes});
  }
};

const char* const kStraight = R"(HloModule m, num_partitions=4
ENTRY e {
  a = f32[10,3] parameter(0), sharding={devices=[4,1]<=[4]}
  b = f32[10,3] parameter(1)
  s = f32[10,3] subtract(a, b)
  m = f32[10,3] multiply(s, b)
  ROOT r = f32[10,3] add(m, s), sharding={replicated}
})";

const char* const kLoop = R"(HloModule m, num_partitions=2
cond { p = (s32[], s32[6]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], s32[6]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = s32[6] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  b = s32[6] broadcast(i), dimensions={}
  zero = s32[] constant(0)
  zeros = s32[6] broadcast(zero), dimensions={}
  t = s32[6] maximum(zeros, x)
  y = s32[6] add(t, b)
  ROOT r = (s32[], s32[6]) tuple(j, y) }
ENTRY e {
  x = s32[6] parameter(0), sharding={devices=[2]<=[2]}
  z = s32[] constant(0)
  t = (s32[], s32[6]) tuple(z, x)
  w = (s32[], s32[6]) while(t), condition=cond, body=body
  ROOT out = s32[6] get-tuple-element(w), index=1
})";

const char* const kSums = R"(HloModule m, num_partitions=4
ENTRY e {
  a = f32[6,8] parameter(0), sharding={devices=[1,4]<=[4]}
  b = f32[8,6] parameter(1), sharding={devices=[4,1]<=[4]}
  d = f32[6,6] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[6,6] negate(d)
  t = f32[6,6] transpose(n), dimensions={1,0}
  ROOT r = f32[6,6] multiply(t, t)
})";

}  // namespace

TEST_CASE("a sort of which only the first elements are kept is no difference") {
  const Compiled compiled(R"(HloModule m, num_partitions=4
less { a = s32[] parameter(0)
  b = s32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e {
  a = s32[32] parameter(0), sharding={devices=[4]<=[4]}
  p = s32[32] iota(), iota_dimension=0
  s = (s32[32], s32[32]) sort(a, p), dimensions={0}, to_apply=less, is_stable=true
  v = s32[32] get-tuple-element(s), index=0
  k = s32[32] get-tuple-element(s), index=1
  w = s32[2] slice(v), slice={[0:2]}
  l = s32[2] slice(k), slice={[0:2]}
  ROOT r = s32[2] add(w, l)
})");
  CHECK_FALSE(compiled.located());
}

TEST_CASE("a right program has no first difference", "[locate]") {
  CHECK_FALSE(Compiled(kStraight).located());
  CHECK_FALSE(Compiled(kLoop).located());
  CHECK_FALSE(Compiled(kSums).located());
}

TEST_CASE("the first op that differs is named with device, index and both values", "[locate]") {
  const Compiled c(kStraight);
  Node* local = c.local("m");
  local->set_operand(1, local->operand(0));
  const auto found = c.located();
  REQUIRE(found);
  CHECK(found->node->name() == "m");
  const Array a = c.arguments[0].array, b = c.arguments[1].array;
  int64_t first = 0;
  const auto s = [&](int64_t i) { return a.at(i) - b.at(i); };
  while (s(first) * b.at(first) == s(first) * s(first)) ++first;
  CHECK(found->index == Dims{first / 3, first % 3});
  CHECK(found->device == first / 3 / 3);
  CHECK(found->expected.at(0) == s(first) * b.at(first));
  CHECK(found->found.at(0) == s(first) * s(first));
}

TEST_CASE("inside of a loop the first op and the iteration are named", "[locate]") {
  const Compiled c(kLoop);
  Node* local = c.local("y");
  local->set_operand(1, c.local("zeros"));  // the same in iteration 0, where i is 0
  const auto found = c.located();
  REQUIRE(found);
  CHECK(found->node->name() == "y");
  CHECK(found->node->parent().name() == "body");
  CHECK(found->run == 1);
  CHECK(found->expected.at(0) == found->found.at(0) + 1);
}

TEST_CASE("partial sums are compared as what they sum up to", "[locate]") {
  const Compiled c(kSums);
  bool unreduced = false;
  for (const PartitionedValue& value : c.partitioned.values)
    unreduced |= !value.sharding.unreduced().empty();
  CHECK(unreduced);
  Node* local = c.local("n");
  Node* wrong = local->parent().append(Opcode::abs, local->shape, {local->operand(0)});
  local->parent().sort();
  local->set_operand(0, wrong);
  local->parent().sort();
  const auto found = c.located();
  REQUIRE(found);
  CHECK(found->node->name() == "n");
}

TEST_CASE("values beyond the memory given are not compared", "[locate]") {
  const Compiled c(kStraight);
  Node* local = c.local("m");
  local->set_operand(1, local->operand(0));
  const auto found = c.located(120);  // room for the first value
  REQUIRE(found);
  CHECK(found->node->name() == "r");  // the result is compared all the same
}
