// Tuples, loops, branches, calls, regions of manual code and annotations with open dims, as users
// of the field expect them completed.

#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

std::string of(const std::string& s) { return s.empty() ? s : ", sharding=" + s; }

PropagateOptions open_parameters() {
  PropagateOptions options;
  options.allow_parameters = {true};
  return options;
}

const char* const kBranches = R"(
yes { p = (f32[8,4], f32[]) parameter(0)
 x = f32[8,4] get-tuple-element(p), index=0
 y = f32[8,4] negate(x)
 z = f32[] get-tuple-element(p), index=1
 ROOT r = (f32[8,4], f32[]) tuple(y, z) }
no { p = f32[8,4] parameter(0)
 x = f32[8,4] tanh(p)
 z = f32[] constant(2)
 ROOT r = (f32[8,4], f32[]) tuple(x, z) }
)";

std::string branches(const std::string& a, const std::string& b, const std::string& out = "") {
  return "p = pred[] parameter(0)\n a = f32[8,4] parameter(1)" + of(a) +
         "\n s = f32[] constant(1)\n t = (f32[8,4], f32[]) tuple(a, s)\n"
         " b = f32[8,4] parameter(2)" +
         of(b) +
         "\n c = (f32[8,4], f32[]) conditional(p, t, b), true_computation=yes, "
         "false_computation=no\n"
         " e = f32[8,4] get-tuple-element(c), index=0\n m = f32[8,4] copy(e)" +
         of(out) + "\n ROOT out = f32[8,4] copy(m)";
}

std::string completed_as(const std::string& body, const std::string& more, const std::string& node,
                         const PropagateOptions& options = {}) {
  INFO(body);
  return sharding_text(*completed(body, options, more), node);
}

}  // namespace

TEST_CASE("completion of branches: arguments go in, results come out, all roots agree") {
  const std::string rows = "{devices=[4,1]<=[4]}", both = "{" + rows + ", {replicated}}";
  CHECK(completed_as(branches(rows, ""), kBranches, "y") == rows);
  CHECK(completed_as(branches(rows, ""), kBranches, "c") == both);
  CHECK(completed_as(branches("", rows), kBranches, "c") == both);
  CHECK(completed_as(branches("", "", rows), kBranches, "c") == both);
  CHECK(completed_as(branches("", "", rows), kBranches, "b", open_parameters()) == rows);
  CHECK(completed_as(branches("", "", rows), kBranches, "t") == both);
  CHECK(completed_as(branches(rows, ""), kBranches, "c", without_spmd()) == both);
}

TEST_CASE("completion of branches chosen by a number: any count of them") {
  const char* const more = R"(
b0 { p = f32[8] parameter(0)
 ROOT n = f32[8] negate(p) }
b1 { p = f32[8] parameter(0)
 ROOT t = f32[8] tanh(p) }
b2 { p = f32[8] parameter(0)
 ROOT e = f32[8] exponential(p), sharding={devices=[4]<=[4]} }
)";
  const std::string body = R"(i = s32[] parameter(0)
 a = f32[8] parameter(1)
 x = f32[8] negate(a)
 c = f32[8] conditional(i, x, x, x), branch_computations={b0,b1,b2}
 ROOT out = f32[8] copy(c))";
  CHECK(completed_as(body, more, "c") == "{devices=[4]<=[4]}");
  CHECK(completed_as(body, more, "t") == "{devices=[4]<=[4]}");
  CHECK(completed_as(body, more, "x") == "{devices=[4]<=[4]}");
}

TEST_CASE("completion of calls: through the callee both ways") {
  const char* const more = R"(
callee { p = f32[8,4] parameter(0)
 q = f32[4,8] transpose(p), dimensions={1,0}
 ROOT r = f32[4,8] negate(q) }
)";
  const auto body = [](const std::string& in, const std::string& out) {
    return "a = f32[8,4] parameter(0)" + of(in) +
           "\n x = f32[8,4] copy(a)\n"
           " c = f32[4,8] call(x), to_apply=callee\n m = f32[4,8] copy(c)" +
           of(out) + "\n ROOT out = f32[4,8] copy(m)";
  };
  CHECK(completed_as(body("{devices=[4,1]<=[4]}", ""), more, "c") == "{devices=[1,4]<=[4]}");
  CHECK(completed_as(body("", "{devices=[1,4]<=[4]}"), more, "x") == "{devices=[4,1]<=[4]}");
}

TEST_CASE("completion of loops that talk over a channel: the body's root is on its device") {
  const char* const more = R"(
cond { p = (u32[], f32[]) parameter(0)
 n = u32[] get-tuple-element(p), index=0
 k = u32[] constant(5)
 ROOT r = pred[] compare(n, k), direction=LT }
body { p = (u32[], f32[]) parameter(0)
 n = u32[] get-tuple-element(p), index=0
 t = token[] after-all()
 v = (f32[], u32[], token[]) recv(t), channel_id=1, sharding={{maximal device=1}, {maximal device=1}, {maximal device=1}}
 d = (f32[], token[]) recv-done(v), channel_id=1, sharding={{maximal device=1}, {maximal device=1}}
 x = f32[] get-tuple-element(d), index=0
 ROOT r = (u32[], f32[]) tuple(n, x) }
)";
  const std::string body = R"(a = f32[] parameter(0)
 z = u32[] constant(0)
 i = (u32[], f32[]) tuple(z, a)
 w = (u32[], f32[]) while(i), condition=cond, body=body
 e = f32[] get-tuple-element(w), index=1
 ROOT out = f32[] copy(e))";
  CHECK(completed_as(body, more, "w") == "{{maximal device=1}, {maximal device=1}}");
  const auto module = [&](const std::string& on) {
    std::string text = body;
    text.replace(text.find("body=body"), 9, "body=body, sharding=" + on);
    return text;
  };
  CHECK_THROWS_WITH(
      completed(module("{{maximal device=0}, {maximal device=0}}"), {}, more),
      Catch::Contains("Instruction: w is on device: 0, which conflicts with device: 1 "
                      "of channel instruction: v"));
}

TEST_CASE("completion of tuples: leaves on one device, manual leaves, elements of elements") {
  const std::string body = R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 b = f32[8] parameter(1), sharding={maximal device=1}
 m = f32[8] parameter(2), sharding={manual}
 u = f32[8] parameter(3)
 i = (f32[8], f32[8]) tuple(a, u)
 t = (f32[8], f32[8], (f32[8], f32[8]), f32[8]) tuple(b, m, i, u)
 e = (f32[8], f32[8]) get-tuple-element(t), index=2
 f = f32[8] get-tuple-element(t), index=1
 ROOT out = (f32[8], f32[8]) copy(e))";
  CHECK(completed_as(body, "", "t") ==
        "{{maximal device=1}, {manual}, {devices=[4]<=[4]}, {replicated}, {replicated}}");
  CHECK(completed_as(body, "", "e") == "{{devices=[4]<=[4]}, {replicated}}");
  CHECK(completed_as(body, "", "f") == "{manual}");
}

TEST_CASE("completion of infeeds and outfeeds: elements from their readers, values from outfeeds") {
  const std::string in = R"(t = token[] after-all()
 i = ((f32[8,4], s32[4]), token[]) infeed(t)
 d = (f32[8,4], s32[4]) get-tuple-element(i), index=0
 x = f32[8,4] get-tuple-element(d), index=0
 c = f32[8,4] negate(x), sharding={devices=[4,1]<=[4]}
 ROOT out = f32[8,4] copy(c))";
  CHECK(completed_as(in, "", "d") == "{{devices=[4,1]<=[4]}, {replicated}}");
  CHECK(completed_as(in, "", "i") == "{{devices=[4,1]<=[4]}, {replicated}, {replicated}}");
  const std::string out = R"(a = f32[8,4] parameter(0)
 n = f32[8,4] negate(a)
 t = token[] after-all()
 o = token[] outfeed(n, t), outfeed_shape=f32[8,4], sharding={{devices=[4,1]<=[4]}, {maximal device=0}}
 ROOT out = f32[8,4] copy(n))";
  CHECK(completed_as(out, "", "n") == "{devices=[4,1]<=[4]}");
}

TEST_CASE("completion of manual code: it ends where it is told to") {
  const std::string body = R"(a = f32[8,8] parameter(0), sharding={devices=[2,2]<=[4]}
 i = f32[4,4] custom-call(a), custom_call_target="SPMDFullToShardShape", sharding={manual}
 n = f32[4,4] negate(i)
 z = f32[] constant(0)
 k = f32[4,4] broadcast(z), dimensions={}
 s = f32[4,4] add(n, k)
 f = f32[8,8] custom-call(s), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,2]<=[4]}
 m = f32[8,8] negate(f)
 ROOT out = f32[8,8] copy(m))";
  CHECK(completed_as(body, "", "n") == "{manual}");
  CHECK(completed_as(body, "", "k") == "{manual}");
  CHECK(completed_as(body, "", "s") == "{manual}");
  CHECK(completed_as(body, "", "m") == "{devices=[2,2]<=[4]}");
}

TEST_CASE("completion of manual subgroups: they ride along with every rule") {
  const std::string body =
      R"(a = f32[8,4] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dims={manual}}
 b = f32[8,4] negate(a)
 t = f32[4,8] transpose(b), dimensions={1,0}
 r = f32[4,4,2] reshape(t)
 z = f32[] constant(0)
 s = f32[4,2] reduce(r, z), dimensions={1}, to_apply=sum
 ROOT out = f32[4,2] copy(s))";
  CHECK(completed_as(body, "", "b") == "{devices=[2,1,2]<=[4] last_tile_dims={manual}}");
  CHECK(completed_as(body, "", "t") == "{devices=[1,2,2]<=[4] last_tile_dims={manual}}");
  CHECK(completed_as(body, "", "r") == "{devices=[1,2,1,2]<=[4] last_tile_dims={manual}}");
  CHECK(completed_as(body, "", "s") ==
        "{devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}");
}

TEST_CASE("completion of open dims: from the operand, from readers, never where they are closed") {
  const auto body = [](const std::string& in, const std::string& out, const std::string& dims) {
    return "a = f32[6,4] parameter(0)" + of(in) +
           "\n s = f32[6,4] custom-call(a), custom_call_target=\"Sharding\", "
           "backend_config=\"unspecified_dims=[" +
           dims +
           "]\", sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}\n"
           " n = f32[6,4] copy(s)" +
           of(out) + "\n ROOT out = f32[6,4] copy(n)";
  };
  const std::string partial = "{devices=[1,2,2]<=[4] last_tile_dim_replicate}";
  const std::string rows = "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}";
  CHECK(completed_as(body(rows, "", "0"), "", "s") == "{devices=[2,2]<=[2,2]T(1,0)}");
  CHECK(completed_as(body("", rows, "0"), "", "s") == "{devices=[2,2]<=[2,2]T(1,0)}");
  CHECK(completed_as(body(rows, "", "1"), "", "s") == partial);
  CHECK(completed_as(body(rows, "", "0"), "", "s", without_spmd()) == partial);
}

TEST_CASE("completion of open dims: annotation and the start of a manual region change together") {
  const std::string enter =
      R"(a = f32[6,8] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
 s = f32[6,8] custom-call(a), custom_call_target="Sharding", backend_config="unspecified_dims=[0]", sharding={devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}
 m = f32[6,4] custom-call(s), custom_call_target="SPMDFullToShardShape", backend_config="unspecified_dims=[0]", sharding={devices=[1,1,2,4]<=[2,2,2]T(1,0,2) last_tile_dims={manual, replicated}}
 n = f32[6,4] negate(m)
 ROOT out = f32[6,4] copy(n))";
  CHECK(completed_as(enter, "", "s") == "{devices=[2,2,2]<=[8] last_tile_dim_replicate}");
  CHECK(completed_as(enter, "", "m") ==
        "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}");
  CHECK(completed_as(enter, "", "n") ==
        "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}");
  const std::string leave =
      R"(a = f32[6,4] parameter(0), sharding={devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}
 s = f32[6,4] custom-call(a), custom_call_target="Sharding", backend_config="unspecified_dims=[0]", sharding={devices=[1,1,2,4]<=[2,2,2]T(1,0,2) last_tile_dims={manual, replicated}}
 f = f32[6,8] custom-call(s), custom_call_target="SPMDShardToFullShape", backend_config="unspecified_dims=[0]", sharding={devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}
 n = f32[6,8] negate(f)
 ROOT out = f32[6,8] copy(n))";
  CHECK(completed_as(leave, "", "f") == "{devices=[2,2,2]<=[8] last_tile_dim_replicate}");
  CHECK(completed_as(leave, "", "n") == "{devices=[2,2,2]<=[8] last_tile_dim_replicate}");
}

TEST_CASE("completion of custom calls: those that pass elements on, and those of equal dims") {
  const auto body = [](const std::string& target, const std::string& in, const std::string& out) {
    return "a = f32[8,8] parameter(0)" + of(in) +
           "\n x = f32[8,8] negate(a)\n"
           " k = f32[8,8] custom-call(x), custom_call_target=\"" +
           target + "\"" + of(out) + "\n n = f32[8,8] negate(k)\n ROOT out = f32[8,8] copy(n)";
  };
  const std::string rows = "{devices=[4,1]<=[4]}";
  for (const char* target : {"LayoutConstraint", "MoveToHost", "MoveToDevice", "Cholesky",
                             "ResizeNearest", "PinToDevice"}) {
    INFO(target);
    CHECK(completed_as(body(target, rows, ""), "", "n") == rows);
    CHECK(completed_as(body(target, "", rows), "", "x") == rows);
    CHECK(completed_as(body(target, rows, ""), "", "k", without_spmd()) == "none");
  }
  CHECK(completed_as(body("Mystery", rows, ""), "", "n") == "none");
  CHECK(completed_as(body("Mystery", "{replicated}", ""), "", "n") == "{replicated}");
  CHECK(completed_as(body("Mystery", "", rows), "", "x") == rows);
}

TEST_CASE("completion leaves values that nobody reads where they are, and lays them out") {
  const std::string body = R"(a = f32[8,8] parameter(0)
 s = f32[8,8] custom-call(a), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
 b = f32[8,8] custom-call(s), custom_call_target="ShardBarrierTo"
 n = f32[8,8] negate(b)
 m = f32[8,8] tanh(s)
 ROOT out = f32[8,8] copy(a))";
  CHECK(completed_as(body, "", "n") == "{devices=[4,1]<=[4]}");
  CHECK(completed_as(body, "", "m") == "{devices=[4,1]<=[4]}");
  CHECK(find_node(*completed(body), "n")->operand(0)->name() == "s");
}

TEST_CASE("completion of copied tuples: leaf by leaf, both ways") {
  const std::string body = R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 b = f32[8] parameter(1)
 x = f32[8] negate(b)
 t = (f32[8], f32[8]) tuple(a, x)
 k = (f32[8], f32[8]) copy(t)
 e = f32[8] get-tuple-element(k), index=1
 n = f32[8] negate(e), sharding={devices=[2]<=[2]}
 f = f32[8] get-tuple-element(k), index=0
 ROOT out = (f32[8], f32[8]) tuple(f, n))";
  CHECK(completed_as(body, "", "k") == "{{devices=[4]<=[4]}, {devices=[2]<=[2]}}");
  CHECK(completed_as(body, "", "f") == "{devices=[4]<=[4]}");
  CHECK(completed_as(body, "", "x") == "{devices=[2]<=[2]}");
}
