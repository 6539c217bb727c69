#include "gspmd/passes/explain/explain_sharding.h"

#include <fmt/format.h>

#include <algorithm>

#include "gspmd/passes/explain/sharding_sources.h"
#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

const std::string kBody =
    R"(x = f32[8,16] parameter(0), sharding={mesh['d'=2,'m'=4], [{'d'}, {}]}, metadata={op_name="batch" source_file="t.cpp" source_line=7}
 w = f32[16,32] parameter(1), sharding={mesh['d'=2,'m'=4], [{}, {'m'}]}, metadata={op_name="w" source_file="t.cpp" source_line=9}
 q = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 t = f32[32,8] transpose(q), dimensions={1,0}
 n = f32[32,8] negate(t)
 ROOT out = f32[32,8] copy(n))";

}  // namespace

TEST_CASE("each digit knows its annotation and the way it came") {
  const auto module = completed(kBody);
  const Node* n = find_node(*module, "n");
  CHECK(describe_sharding(*n) ==
        "dim 0 over m: from w at t.cpp:9, through dot %q, transpose %t\n"
        "dim 1 over d: from batch at t.cpp:7, through dot %q, transpose %t\n");
  REQUIRE(n->origins.size() == 2);
  const std::vector<const Node*> path = origin_path(*n, n->origins[0]);
  REQUIRE(path.size() == 3);
  CHECK(path[0]->name() == "t");
  CHECK(path[2]->name() == "w");
  CHECK(describe_sharding(*find_node(*module, "w")) == "dim 1 over m: given by w at t.cpp:9\n");
  CHECK(describe_sharding(*find_node(*module, "out")).empty());
}

TEST_CASE("a digit names every annotation that would bring it, the first one first") {
  const std::string text =
      R"(a = f32[8,4] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 b = f32[8,4] parameter(1), sharding={devices=[2,2]<=[4]}
 c = f32[8,4] parameter(2)
 n = f32[8,4] negate(a)
 s = f32[8,4] add(n, b)
 t = f32[4,8] transpose(s), dimensions={1,0}
 ROOT out = f32[4,8] copy(t))";
  const auto module = completed(text);
  const ShardingSources sources(*parse_module("HloModule m\nENTRY main {\n" + text + "\n}\n"),
                                *module);
  const Node* t = find_node(*module, "t");
  REQUIRE(t->origins.size() == 2);
  CHECK(sources.annotations(*t, 0) == std::vector<std::string>{"b"});
  CHECK(sources.annotations(*t, 1).size() == 2);
  CHECK(sources.annotations(*t, 1).front() == t->origins[1].annotation);
}

TEST_CASE("a digit that a reader has from another operand names that one, not the reader's own") {
  // The rows that an update goes to are split as its batch is, by the digit that splits the columns
  // of the table.
  const auto module = completed(
      R"(t = f32[24,16] parameter(0), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}
 p = s32[8] parameter(1)
 i = s32[8] negate(p)
 u = f32[8,16] parameter(2), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 g = f32[24,16] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
 ROOT out = f32[24,16] copy(g))");
  const Node* i = find_node(*module, "i");
  REQUIRE(sharding_text(*module, "i") == "{devices=[2,2]<=[4] last_tile_dim_replicate}");
  REQUIRE(i->origins.size() == 1);
  CHECK(i->origins[0].annotation == "u");
  CHECK(i->origins[0].via == "g");
  const std::vector<const Node*> path = origin_path(*i, i->origins[0]);
  REQUIRE(path.size() == 2);
  CHECK(path[0]->name() == "g");
  CHECK(path[1]->name() == "u");
}

TEST_CASE("ways are cut where they are longer than asked for") {
  std::string body =
      "x = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n n0 = f32[8] negate(x)\n";
  for (int i = 1; i < 40; ++i) body += fmt::format(" n{} = f32[8] negate(n{})\n", i, i - 1);
  const auto module = completed(body + " ROOT out = f32[8] copy(n39)");
  const Node* last = find_node(*module, "n39");
  CHECK(origin_path(*last, last->origins.at(0)).size() == 40);
  CHECK(origin_path(*last, last->origins.at(0), 5).size() == 5);
  CHECK_THAT(describe_sharding(*last),
             Catch::StartsWith("dim 0 over (4,1): from %x, through ..., "));
}

TEST_CASE("lint names annotations that lost, where, to which, and those that nobody used") {
  const auto module = completed(R"(a = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}
 b = f32[8,8] parameter(1), sharding={devices=[4,1]<=[4]}
 n = f32[8,8] negate(a)
 m = f32[8,8] negate(b), sharding={devices=[1,4]<=[4]}
 s = f32[8,8] add(n, m)
 k = f32[8,8] parameter(2), sharding={devices=[4,1]<=[4]}
 ROOT out = f32[8,8] copy(s))");
  const ShardingLint lint = lint_shardings(*module);
  REQUIRE(lint.lost.size() == 2);
  CHECK(lint.lost[0].annotation->name() == "m");
  CHECK(lint.lost[0].winner->name() == "b");
  CHECK(lint.lost[0].at->name() == "b");
  CHECK(lint.lost[1].annotation->name() == "a");
  CHECK(lint.lost[1].winner->name() == "m");
  CHECK(lint.lost[1].at->name() == "m");
  CHECK(lint.lost[1].reader->name() == "s");
  CHECK_THAT(to_string(lint), Catch::Contains("%a lost to %m on dim 0 of %m"));
  std::vector<std::string> unused;
  for (const Node* node : lint.unused) unused.push_back(node->name());
  CHECK(unused == std::vector<std::string>{"b", "m", "k"});
}

namespace {

// A gated block, its gradient with regard to the weights, and a step of descent, 24 times over; one
// weight per kind and the batch are annotated, in the first layer only.
std::string training_step(const std::string& batch, const std::string& up,
                          const std::string& down) {
  const auto of = [](const std::string& s) { return s.empty() ? s : ", sharding=" + s; };
  std::string text =
      "x0 = f32[32,64] parameter(0)" + of(batch) + "\n g0 = f32[32,64] parameter(1)\n";
  constexpr int kLayers = 24;
  for (int i = 0; i < kLayers; ++i) {
    text += fmt::format(
        " up{0} = f32[64,128] parameter({2}){4}\n down{0} = f32[128,64] parameter({3}){5}\n"
        " h{0} = f32[32,128] dot(x{0}, up{0}), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{0}}\n"
        " a{0} = f32[32,128] tanh(h{0})\n"
        " d{0} = f32[32,64] dot(a{0}, down{0}), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{0}}\n"
        " x{1} = f32[32,64] add(x{0}, d{0})\n",
        i, i + 1, 2 + 2 * i, 3 + 2 * i, i == 0 ? of(up) : "", i == 0 ? of(down) : "");
    // All layers share the kinds: what the first is told, the stack is.
    if (i > 0)
      text += fmt::format(
          " su{0} = f32[64,128] subtract(up0, up{0})\n"
          " sd{0} = f32[128,64] subtract(down0, down{0})\n",
          i);
  }
  std::string results;
  for (int i = kLayers; i-- > 0;) {
    text += fmt::format(
        " gd{0} = f32[128,64] dot(a{0}, g{1}), lhs_contracting_dims={{0}}, "
        "rhs_contracting_dims={{0}}\n"
        " nd{0} = f32[128,64] subtract(down{0}, gd{0})\n"
        " ga{0} = f32[32,128] dot(g{1}, down{0}), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{1}}\n"
        " gu{0} = f32[64,128] dot(x{0}, ga{0}), lhs_contracting_dims={{0}}, "
        "rhs_contracting_dims={{0}}\n"
        " nu{0} = f32[64,128] subtract(up{0}, gu{0})\n"
        " gx{0} = f32[32,64] dot(ga{0}, up{0}), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{1}}\n"
        " g{2} = f32[32,64] add(g{1}, gx{0})\n",
        i, kLayers - 1 - i, kLayers - i);
    results += fmt::format("{}nu{}, nd{}", results.empty() ? "" : ", ", i, i);
  }
  std::string shapes;
  for (int i = 0; i < kLayers; ++i)
    shapes += fmt::format("{}f32[64,128], f32[128,64]", i ? ", " : "");
  return text + " ROOT out = (" + shapes + ") tuple(" + results + ")";
}

bool is_explained_by(const Node& node, const std::string& annotation) {
  return std::any_of(node.origins.begin(), node.origins.end(),
                     [&](const Origin& o) { return o.annotation == annotation; });
}

}  // namespace

TEST_CASE("one annotated weight per kind completes a training step of 24 layers, and explains it") {
  const std::string batch = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}";
  const std::string up = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}";
  const std::string down = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}";
  const auto full = completed(training_step(batch, up, down), open_boundary());
  for (int i = 0; i < 24; ++i) {
    CHECK(sharding_text(*full, fmt::format("a{}", i)) == "{devices=[2,4]<=[8]}");
    CHECK(sharding_text(*full, fmt::format("up{}", i)) == up);
    CHECK(sharding_text(*full, fmt::format("nd{}", i)) == down);
    CHECK(sharding_text(*full, fmt::format("g{}", i)) == batch);
  }
  // Without an annotation nothing changes but what it explains.
  const std::string without[] = {training_step("", up, down)};
  const std::string names[] = {"x0"};
  for (size_t i = 0; i < 1; ++i) {
    const auto less = completed(without[i], open_boundary());
    for (const auto& node : full->entry()->nodes()) {
      const Node* other = find_node(*less, node->name());
      INFO(node->name());
      const bool same = node->sharding && other->sharding && *node->sharding == *other->sharding;
      CHECK(same != is_explained_by(*node, names[i]));
    }
  }
}

TEST_CASE("leaves of one tuple keep their own origins") {
  const auto module = completed(R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 b = f32[8] parameter(1), sharding={devices=[4]<=[4]}
 t = (f32[8], f32[8]) tuple(a, b)
 k = (f32[8], f32[8]) opt-barrier(t)
 x = f32[8] get-tuple-element(k), index=0
 y = f32[8] get-tuple-element(k), index=1
 s = f32[8] subtract(y, x)
 ROOT out = f32[8] copy(s))");
  CHECK_THAT(describe_sharding(*find_node(*module, "x")),
             Catch::StartsWith("dim 0 over (4,1): from %a"));
  CHECK_THAT(describe_sharding(*find_node(*module, "y")),
             Catch::StartsWith("dim 0 over (4,1): from %b"));
}
