// Which ops become fusions of tiles of rows.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/passes/fuse/fuse.h"
#include "load.h"

namespace gspmd::fuse_row_tiles_test {
namespace {

std::unique_ptr<Module> entry(const std::string& body) {
  return parse_module(fmt::format(R"(HloModule m
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
sum16 {{ a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT r = bf16[] add(a, b) }}
less {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }}
ENTRY e {{
  zero = f32[] constant(0)
{}
}}
)",
                                  body));
}

// The opcodes inside of each fusion of tiles.
std::vector<std::string> tiles(const Module& module) {
  std::vector<std::string> found;
  for (const auto& node : module.entry()->nodes()) {
    if (!node->is(Opcode::fusion) || node->attrs.fusion_kind != "kCustom") continue;
    std::string inside;
    for (const auto& inner : node->called[0]->nodes())
      if (!inner->is(Opcode::parameter))
        inside += (inside.empty() ? "" : " ") + std::string(opcode_name(inner->opcode()));
    found.push_back(inside);
  }
  return found;
}
std::vector<std::string> tiles_of(const std::string& body) {
  const auto module = entry(body);
  fuse(*module);
  verify_module(*module);
  return tiles(*module);
}
using Found = std::vector<std::string>;

const char* const kSpace = "f32[1024,256]";
std::string running_sum(const std::string& of) {
  return fmt::format(
      "{} reduce-window({}, zero), window={{size=1x256 pad=0_0x255_0}}, to_apply=sum", kSpace, of);
}

// Ops over the space, some of which mix its rows.
std::string random_body(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return size_t(random() % n); };
  std::string body = fmt::format("x = {0} parameter(0)\ny = {0} parameter(1)\n", kSpace) +
                     "w = f32[256,256] parameter(2)\n";
  std::vector<std::string> made{"x", "y"};
  const auto add = [&](const std::string& what) {
    made.push_back(fmt::format("v{}", made.size()));
    body += fmt::format("{} = {}\n", made.back(), what);
  };
  for (size_t ops = 5 + below(10); ops > 0; --ops) {
    const std::string a = made[below(2) == 0 ? made.size() - 1 : below(made.size())];
    const std::string b = made[below(made.size())];
    switch (below(8)) {
      case 0:
      case 1:
        add(running_sum(a));
        break;
      case 2:
        add(fmt::format("{} sort({}), dimensions={{1}}, to_apply=less", kSpace, a));
        break;
      case 3:
        add(fmt::format("{} dot({}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
                        kSpace, a));
        break;
      case 4: {
        body += fmt::format("s{} = f32[256] reduce({}, zero), dimensions={{0}}, to_apply=sum\n",
                            made.size(), a);
        body += fmt::format("t{0} = {1} broadcast(s{0}), dimensions={{1}}\n", made.size(), kSpace);
        add(fmt::format("{} subtract({}, t{})", kSpace, b, made.size()));
        break;
      }
      case 5: {
        body += fmt::format("p{} = f32[1024,255] slice({}), slice={{[0:1024], [1:256]}}\n",
                            made.size(), a);
        body +=
            fmt::format("q{} = f32[1024,1] slice({}), slice={{[0:1024], [0:1]}}\n", made.size(), b);
        add(fmt::format("{0} concatenate(p{1}, q{1}), dimensions={{1}}", kSpace, made.size()));
        break;
      }
      default:
        add(fmt::format("{} {}({}, {})", kSpace, below(2) == 0 ? "add" : "maximum", a, b));
    }
  }
  const std::string middle = made[made.size() / 2];
  return body + fmt::format("ROOT r = ({0}, {0}) tuple({1}, {2})", kSpace, made.back(), middle);
}

}  // namespace

TEST_CASE("fuse: windows of 16-bit floats go by tiles with what they are converted from",
          "[fuse]") {
  CHECK(tiles_of(R"(x = bf16[64,32,32,32] parameter(0)
  z = bf16[] constant(0)
  ROOT r = bf16[64,16,16,32] reduce-window(x, z), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=sum16)") ==
        Found{"convert reduce-window convert"});
}

TEST_CASE("fuse: tiles take in what goes row by row, in both directions", "[fuse]") {
  const std::string x = fmt::format("x = {} parameter(0)\n", kSpace);
  const std::string chain =
      x + fmt::format("a = {0} negate(x)\nb = {1}\nc = {0} add(b, x)\n", kSpace, running_sum("a"));
  CHECK(tiles_of(chain + "ROOT d = " + running_sum("c")) ==
        Found{"negate constant reduce-window add reduce-window"});
  // What others read is a result.
  CHECK(tiles_of(chain + fmt::format("d = {1}\nROOT r = ({0}, {0}) tuple(c, d)", kSpace,
                                     running_sum("c"))) ==
        Found{"negate constant reduce-window add reduce-window tuple"});
  // The rows meet between.
  const std::string apart = fmt::format(
      "s = f32[256] reduce(c, zero), dimensions={{0}}, to_apply=sum\n"
      "t = {0} broadcast(s), dimensions={{1}}\nu = {0} subtract(c, t)\nROOT d = {1}",
      kSpace, running_sum("u"));
  for (const std::string& found : tiles_of(chain + apart))
    CHECK(found.find("reduce-window") == found.rfind("reduce-window"));
  // Too little to leave a cache.
  CHECK(tiles_of("x = f32[64,256] parameter(0)\na = f32[64,256] negate(x)\n"
                 "ROOT b = f32[64,256] sort(a), dimensions={1}, to_apply=less")
            .empty());
}

TEST_CASE("fuse: a path that leaves a tile does not come back to it", "[fuse]") {
  const auto found = tiles_of(fmt::format(
      R"(x = {0} parameter(0)
  w = f32[256,256] parameter(1)
  a = {1}
  n = {0} negate(a)
  b = {2}
  p = {0} dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  c = {0} add(b, p)
  d = {3}
  ROOT r = {0} negate(d))",
      kSpace, running_sum("x"), running_sum("n"), running_sum("c")));
  REQUIRE(found.size() >= 1);
  CHECK(found[0] == "constant reduce-window negate reduce-window tuple");
}

TEST_CASE("fuse: random graphs with tiles compute the same", "[fuse]") {
  int64_t count = 0;
  for (int64_t seed = 0; seed < random_load(16); ++seed) {
    const std::string body = random_body(uint64_t(seed) + 5);
    INFO(body);
    const auto plain = entry(body), module = entry(body);
    fuse(*module);
    verify_module(*module);
    count += std::ssize(tiles(*module));
    std::mt19937_64 random(uint64_t(seed) + 1);
    std::vector<Value> values;
    for (const Node* parameter : plain->entry()->parameters()) {
      values.push_back({Array(parameter->shape), {}, false});
      for (int64_t i = 0; i < values.back().array.size(); ++i)
        values.back().array.set(i, double(random() % 9) - 4);
    }
    const std::vector<Array> expected = leaves(evaluate(*plain, values));
    const std::vector<Array> got = leaves(evaluate(*module, values));
    for (size_t r = 0; r < expected.size(); ++r) CHECK(bitwise_equal(got[r], expected[r]));
  }
  CHECK(count > 0);
}

}  // namespace gspmd::fuse_row_tiles_test
