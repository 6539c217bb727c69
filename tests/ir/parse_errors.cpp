#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "load.h"

namespace gspmd::parse_errors_test {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_module(text, "m.hlo");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

// The message for a module whose entry holds these instructions below a: f32[4], s: f32[].
std::string error_in(const std::string& body) {
  return error_of(
      "HloModule m\nsum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
      " ROOT z = f32[] add(x, y) }\nENTRY e {\n  a = f32[4] parameter(0)\n"
      "  s = f32[] parameter(1)\n  " +
      body + "\n}\n");
}

}  // namespace

TEST_CASE("an error names file, line and column, and shows the line with a caret") {
  CHECK(error_in("ROOT r = f32[4] add(a, b)") ==
        "m.hlo:8:26: \"b\" is not defined in \"e\"\n"
        "    ROOT r = f32[4] add(a, b)\n"
        "                           ^");
}

TEST_CASE("one mistake in an instruction is one located message") {
  const auto [body, position, message] = GENERATE(table<std::string, std::string, std::string>({
      {"r = f32[4] ad(a, a)", "8:14", "unknown opcode \"ad\""},
      {"a = f32[4] negate(a)", "8:3", "\"a\" is defined twice"},
      {"r = f32[4] negate(r)", "8:21", "\"r\" reads itself through \"r\""},
      {"r = f32[4] add(a)", "8:3", "1 operands given, 2 needed"},
      {"r = f32[5] add(a, a)", "8:3", "f32[5]"},
      {"r = f33[4] add(a, a)", "8:7", "\"f33\" is not an element type"},
      {"r = f32[4] add(f32[5] a, a)", "8:18", "is written as f32[5], but is f32[4]"},
      {"r = f32[-4] add(a, a)", "8:11", "dim -4 is negative"},
      {"r = f32[?] add(a, a)", "8:11", "of unknown size"},
      {"r = f32[99999999999999999999] add(a, a)", "8:11", "does not fit into 64 bits"},
      {"r = f32[4611686018427387904,4] add(a, a)", "8:7", "more bytes than 64 bits can count"},
      {"r = f32[4] parameter(0)", "8:24", "number 0 is \"a\" already"},
      {"r = f32[4] parameter(-1)", "8:24", "number -1 is outside"},
      {"r = f32[4] parameter(3)", "5:1", "parameter(2) is missing"},
      {"r = f32[2] constant({1,2,3})", "8:28", "more than the 2 elements of dim 0"},
      {"r = f32[3] constant({1,2})", "8:27", "2 elements where dim 0 of f32[3] has 3"},
      {"r = f32[2] constant({{1,2}})", "8:24", "the braces are deeper"},
      {"r = f32[2,1] constant({1,2})", "8:26", "inside 1 braces; f32[2,1] needs 2"},
      {"r = f32[1000000000] constant(0)", "8:32", "4000000000 bytes; up to 268435456"},
      {"r = f32[1000000000] constant({0})", "8:34", "1 elements where dim 0"},
      {"r = s8[] constant(128)", "8:21", "128 does not fit into s8"},
      {"r = u8[] constant(-1)", "8:21", "-1 does not fit into u8"},
      {"r = s32[] constant(2147483648)", "8:22", "2147483648 does not fit into s32"},
      {"r = s64[] constant(-9223372036854775809)", "8:22", "does not fit into s64"},
      {"r = u64[] constant(18446744073709551616)", "8:22", "does not fit into u64"},
      {"r = s32[] constant(0x-5)", "8:22", "\"0x-5\" is no s32 value"},
      {"r = s32[] constant(+-5)", "8:22", "\"+-5\" is no s32 value"},
      {"r = f32[2] reduce-window(a, a), window={size=3 rhs_reversal=2}", "8:50",
       "rhs_reversal is 0 or 1 per dim, 2 is neither"},
      {"r = s32[] constant(1.5)", "8:22", "\"1.5\" is no s32 value"},
      {"r = f32[] constant(1e99)", "8:22", "1e99 does not fit into f32"},
      {"r = f32[] constant(x)", "8:22", "\"x\" is no f32 value"},
      {"r = f32[] constant(--1)", "8:22", "\"--1\" is no f32 value"},
      {"r = pred[] constant(2)", "8:23", "\"2\" is no pred value"},
      {"r = f32[] constant(})", "8:22", "expected a number, found '}'"},
      {"r = (f32[2]) constant((x))", "8:26", "\"x\" is no f32 value"},
      {"r = token[] constant(1)", "8:24", "no value that can be written"},
      {"r = f32[] constant({...})", "8:22", "left out ({...})"},
      {"r = f32[] reduce(a, s), to_apply=sum", "8:13", "the attribute dimensions=... is missing"},
      {"r = f32[] reduce(a, s), dimensions={0}", "8:13", "to_apply=computation is missing"},
      {"r = f32[] reduce(a, s), dimensions={0}, to_apply=f", "8:52", "no computation \"f\""},
      {"r = f32[] reduce(a, s), dimensions={1}, to_apply=sum", "8:3", "reduce"},
      {"r = f32[] reduce(a, s), dimensions={0}, dimensions={0}", "8:43", "given twice"},
      {"r = f32[4] call(a), to_apply=sum", "8:3", "has 2 parameters, 1 are needed"},
      {"r = f32[4] call(a), to_apply=e", "8:32", "calls itself"},
      {"r = pred[4] compare(a, a), direction=XX", "8:40", "\"XX\" is no direction"},
      {"r = f32[4] negate(a), sharding={devices=[3]<=[2]}", "8:", "sharding"},
      {"r = f32[4] negate(a), sharding={devices=[2,2]<=[4]}", "8:", "sharding"},
      {"r = f32[4] negate(a), sharding={{replicated}}", "8:34", "tuple of shardings on the array"},
      {"r = (f32[4]) tuple(a), sharding={{replicated},{replicated}}", "8:35",
       "2 elements for the 1"},
      {"r = f32[4] all-gather(a), dimensions={0}, replica_groups={{0,1},{1}}", "8:67",
       "two places"},
      {"r = f32[4] all-gather(a), dimensions={0}, replica_groups=[2,2]<=[5]", "8:60",
       "2 groups of 2"},
      {"r = f32[4] all-gather(a), dimensions={0}, replica_groups=[2,2]<=[2,2]T(0,0)", "8:60",
       "not a permutation"},
      {"r = f32[4] collective-permute(a), source_target_pairs={{0,1},{0,2}}", "8:64",
       "sends twice"},
      {"r = f32[2] slice(a), slice={[0:2:1}", "8:37",
       "expected ']' after a slice range, found '}'"},
      {"r = f32[4] pad(a, s), padding=1", "8:33", "expected low_high per dim"},
      {"r = f32[4] negate(a), metadata={op_name=\"x}", "8:43", "not closed by a quote"},
      {"r = f32[4] negate(a), foo={[}", "8:31", "']' is wanted first"},
      {"r = f32[4] negate(a) metadata={}", "8:33", "expected an opcode, found '{'"},
      {"r = f32[4] negate(a", "9:1", "expected ',' between operands, found '}'"},
      {"r = f32[4] negate(a), /* x", "8:25", "not closed by */"},
  }));
  const std::string error = error_in(body);
  CHECK_THAT(error, Catch::StartsWith("m.hlo:" + position));
  CHECK_THAT(error, Catch::Contains(message));
}

TEST_CASE("one mistake in a module is one located message") {
  const auto [text, message] = GENERATE(table<std::string, std::string>({
      {"", "m.hlo:1:1: HLO text starts with \"HloModule name\""},
      {"HloModule m", "m.hlo:1:12: the module has no computation"},
      {"HloModule m\nENTRY e {", "m.hlo:2:10: expected an instruction or '}', found the end"},
      {"HloModule m\nENTRY e { }", "m.hlo:2:1: computation \"e\" has no instruction"},
      {"HloModule m, num_partitions=0", "m.hlo:1:29: num_partitions: 0 is outside 1"},
      {"HloModule m, num_partitions=2, num_partitions=2", "m.hlo:1:32: HloModule: num_partitions"},
      {"HloModule m\nf { a = f32[] parameter(0) }\nf { a = f32[] parameter(0) }",
       "m.hlo:3:1: computation \"f\" is defined twice"},
      {"HloModule m\nENTRY f { a = f32[] parameter(0) }\nENTRY g { a = f32[] parameter(0) }",
       "m.hlo:3:1: a second ENTRY"},
      {"HloModule m\nf { ROOT a = f32[] parameter(0)\n ROOT b = f32[] negate(a) }",
       "m.hlo:3:2: a second ROOT; \"a\" is one already"},
      {"HloModule m\nf (a: f32[]) -> f32[2] { a = f32[] parameter(0) }",
       "m.hlo:2:3: \"f\": the result is f32[2] in the first line, f32[] in the body"},
      {"HloModule m\nf { a = f32[] call(), to_apply=g }\ng { b = f32[] call(), to_apply=f }",
       "m.hlo:3:32: computation \"f\" calls itself through \"g\""},
      {"HloModule m, input_output_alias={ {}: (1, {}) }\nf { a = f32[] parameter(0) }",
       "m.hlo:1:14: input_output_alias: output {} and parameter 1"},
      {std::string("HloModule m\nf { a = f32[] \0 }", 29), "found the byte 0x00"},
      {std::string("HloModule m\n\0", 13),
       "m.hlo:2:1: expected a computation, found the byte 0x00"},
      {"HloModule m\nf { a = " + std::string(10000, '(') + "f32[] parameter(0) }", "nested more"},
      {"HloModule m\nf { a = f32[] constant(" + std::string(10000, '{') + ") }", "deeper"},
      {"HloModule m\nf { a = f32[] parameter(0), x=" + std::string(10000, '{') + "}", "not closed"},
  }));
  CHECK_THAT(error_of(text), Catch::Contains(message));
}

TEST_CASE("a long line is shown around the mistake only") {
  const std::string error =
      error_in("r = f32[4] negate(" + std::string(5000, ' ') + "q" + std::string(5000, ' ') + ")");
  CHECK(error.size() < 400);
  CHECK_THAT(error, Catch::StartsWith("m.hlo:8:5021: \"q\" is not defined"));
}

TEST_CASE("text with any piece cut, doubled or changed is read or refused, never worse") {
  const std::string text =
      R"(HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }, num_partitions=4
%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(%x, %y)
}
ENTRY %main (a: f32[4,8]) -> (f32[4], f32[4,8]) {
  %a = f32[4,8]{1,0} parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  %i = s32[2]{0} constant({1, -2})
  %s = f32[] constant(0x1p-3)
  %g = f32[2,8] gather(%a, %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
  %p = f32[4,8] pad(%g, %s), padding=1_1x0_0_0, metadata={op_name="a\"b" source_line=3}
  %l = f32[2,4] slice(%p), slice={[0:4:2], [4:8]}
  %d = f32[4,4] dot(%l, %l), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %r = f32[4] reduce(%d, %s), dimensions={1}, to_apply=%sum, frontend_attributes={k="v"}
  %c = f32[4] all-reduce(%r), channel_id=1, replica_groups=[2,2]<=[4], to_apply=%sum
  ROOT %t = (f32[4], f32[4,8]) tuple(%c, %p), sharding={{replicated}, {devices=[4,1]0,1,2,3}}
}
)";
  REQUIRE(error_of(text) == "no error");
  const std::string pool = "{}[](),=%\"0-9xZ\n/*<T" + std::string(1, '\0');
  uint64_t state = 1;
  const auto next = [&](size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % bound;
  };
  int refused = 0;
  for (int trial = 0; trial < random_load(20000); ++trial) {
    std::string changed = text;
    const size_t at = next(text.size());
    switch (next(4)) {
      case 0:
        changed.resize(at);
        break;
      case 1:
        changed.erase(at, 1 + next(12));
        break;
      case 2:
        changed.insert(at, changed.substr(next(text.size()), 1 + next(12)));
        break;
      default:
        changed[at] = pool[next(pool.size())];
    }
    CAPTURE(changed);
    REQUIRE_NOTHROW(refused += error_of(changed) != "no error");
  }
  CHECK(refused > random_load(10000));
}

}  // namespace gspmd::parse_errors_test
