#include "gspmd/passes/collectives/windowed_einsum.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "gspmd/passes/memory/plan_memory.h"
#include "passes/rewrite_check.h"

namespace gspmd::windowed_einsum_test {
namespace {

WindowedEinsumOptions always(bool bidirectional = false, bool unroll = false) {
  WindowedEinsumOptions options;
  options.threshold_mib = 0;
  options.bidirectional = bidirectional;
  options.unroll = unroll;
  return options;
}

std::string module_text(int64_t devices, const std::string& body, const char* dtype = "f32") {
  return fmt::format(R"(HloModule m, num_partitions={0}
%sum {{
  %x = {2}[] parameter(0)
  %y = {2}[] parameter(1)
  ROOT %s = {2}[] add(%x, %y)
}}
ENTRY %main {{
{1}
}}
)",
                     devices, body, dtype);
}

// Each variant of the loop computes the bits of the product it stands for.
void check_all_variants(const std::string& text) {
  for (const bool bidirectional : {false, true})
    for (const bool unroll : {false, true}) {
      INFO("bidirectional " << bidirectional << ", unroll " << unroll << "\n" << text);
      const auto module = changed(
          text, [&](Module& m) { return loop_windowed_einsums(m, always(bidirectional, unroll)); });
      CHECK(count(*module, Opcode::all_gather) == 0);
      CHECK(count(*module, Opcode::reduce_scatter) == 0);
      CHECK(count(*module, Opcode::collective_permute) > 0);
    }
}

// all-gather of [2,4,6] along `dim` over `groups` of `size`, all but the last `tail` elements of it
// as the operand `side` of a product.
std::string gathered(int64_t devices, const std::string& groups, int64_t size, int dim, bool left,
                     int64_t tail = 0) {
  Dims whole = {2, 4, 6};
  whole[static_cast<size_t>(dim)] *= size;
  Dims read = whole;
  read[static_cast<size_t>(dim)] -= tail;
  const Dims other = {read[0], 5, read[2]};  // batch, free, contracting
  const char* const cut_off = tail > 0 ? "%s" : "%g";
  const std::string operands =
      left ? fmt::format("{}, %y", cut_off) : fmt::format("%y, {}", cut_off);
  const Dims result = left ? Dims{read[0], read[1], 5} : Dims{read[0], 5, read[1]};
  const std::string cut =
      tail == 0 ? ""
                : fmt::format("  %s = f32[{}] slice(%g), slice={{[0:{}],[0:{}],[0:{}]}}",
                              fmt::join(read, ","), read[0], read[1], read[2]);
  return module_text(devices, fmt::format(R"(  %x = f32[2,4,6] parameter(0)
  %y = f32[{}] parameter(1)
  %g = f32[{}] all-gather(%x), channel_id=1, replica_groups={}, dimensions={{{}}}, use_global_device_ids=true
{}
  ROOT %d = f32[{}] dot({}), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}})",
                                          fmt::join(other, ","), fmt::join(whole, ","), groups, dim,
                                          cut, fmt::join(result, ","), operands));
}

}  // namespace

TEST_CASE("a product of a gathered operand becomes a loop over its slices") {
  for (const bool left : {true, false})
    for (int dim = 0; dim < 3; ++dim) {
      check_all_variants(gathered(4, "{}", 4, dim, left));
      check_all_variants(gathered(3, "{}", 3, dim, left));
      check_all_variants(gathered(8, "[4,2]<=[2,4]T(1,0)", 2, dim, left));
      check_all_variants(gathered(8, "[2,4]<=[2,2,2]T(1,2,0)", 4, dim, left));
      check_all_variants(gathered(6, "{{4,0,2},{1,5,3}}", 3, dim, left));
    }
}

TEST_CASE("a scattered sum of products becomes a loop over slices of the result") {
  for (const char* groups :
       {"{{0,1,2,3},{4,5,6,7}}", "[2,4]<=[4,2]T(1,0)", "{{6,4,2,0},{1,3,5,7}}"})
    for (int dim = 0; dim < 3; ++dim) {
      Dims result = {4, 8, 12};
      result[static_cast<size_t>(dim)] /= 4;
      check_all_variants(module_text(8, fmt::format(R"(  %x = f32[4,8,5] parameter(0)
  %y = f32[4,5,12] parameter(1)
  %d = f32[4,8,12] dot(%x, %y), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}
  ROOT %r = f32[{}] reduce-scatter(%d), channel_id=1, replica_groups={}, dimensions={{{}}}, use_global_device_ids=true, to_apply=%sum)",
                                                    fmt::join(result, ","), groups, dim)));
    }
}

TEST_CASE("slices of an uneven dim, of which the last ones have a tail, go round a ring too") {
  for (const bool left : {true, false})
    for (int dim = 0; dim < 3; ++dim) {
      check_all_variants(gathered(4, "{}", 4, dim, left, 1));
      check_all_variants(gathered(8, "[2,4]<=[2,2,2]T(1,2,0)", 4, dim, left, 3));  // an empty slice
      Dims whole = {3, 7, 11}, padded = {4, 8, 12};
      for (int d = 0; d < 3; ++d)
        if (d != dim) padded[static_cast<size_t>(d)] = whole[static_cast<size_t>(d)];
      Dims result = padded;
      result[static_cast<size_t>(dim)] /= 4;
      check_all_variants(
          module_text(4, fmt::format(R"(  %x = f32[3,7,5] parameter(0)
  %y = f32[3,5,11] parameter(1)
  %d = f32[3,7,11] dot(%x, %y), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}
  %z = f32[] constant(0)
  %p = f32[{}] pad(%d, %z), padding=0_{}x0_{}x0_{}
  ROOT %r = f32[{}] reduce-scatter(%p), channel_id=1, replica_groups={{}}, dimensions={{{}}}, use_global_device_ids=true, to_apply=%sum)",
                                     fmt::join(padded, ","), padded[0] - 3, padded[1] - 7,
                                     padded[2] - 11, fmt::join(result, ","), dim)));
    }
}

TEST_CASE("sums of 16-bit products are kept in 32 bits on the way") {
  const std::string text = module_text(4, R"(  %x = bf16[4,6] parameter(0)
  %y = bf16[5,24] parameter(1)
  %g = bf16[4,24] all-gather(%x), channel_id=1, replica_groups={}, dimensions={1}, use_global_device_ids=true
  ROOT %d = bf16[4,5] dot(%g, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1})",
                                       "bf16");
  check_all_variants(text);
}

TEST_CASE("small operands, long rings, shared operands and ops that opted out are gathered") {
  const std::string text = gathered(4, "{}", 4, 1, true);
  const auto stays = [](const std::string& module_text, WindowedEinsumOptions options) {
    const auto module = parse_module(module_text);
    return !loop_windowed_einsums(*module, options);
  };
  CHECK(stays(text, {}));  // far below 256 MiB
  WindowedEinsumOptions options = always();
  options.max_iterations = 3;
  CHECK(stays(text, options));
  options = {};
  options.total_bytes = 0;
  CHECK_FALSE(stays(text, options));
  options = always();
  options.total_bytes = 1 << 20;
  CHECK(stays(text, options));
  options = always();
  options.all_gather = false;
  CHECK(stays(text, options));
  std::string shared = text;
  shared.erase(shared.find("ROOT %d"), 5);
  shared.insert(
      shared.rfind("}"),
      "  %n = f32[2,16,6] negate(%g)\n  ROOT %t = (f32[2,16,5], f32[2,16,6]) tuple(%d, %n)\n");
  CHECK(stays(shared, always()));
  options = always();
  options.skip_checking_users = true;
  CHECK_FALSE(stays(shared, options));
  std::string out = text;
  out.insert(out.find("rhs_contracting_dims={2}") + 24,
             ", frontend_attributes={_xla_collective_matmul=\"none\"}");
  CHECK(stays(out, always()));
}

TEST_CASE("at most two slices of the moving operand are alive, four where it moves both ways") {
  // The slice dwarfs everything else: 1 MiB against results of 4 KiB.
  const std::string text = module_text(4, R"(  %x = f32[262144,1] parameter(0)
  %y = f32[1,1048576] parameter(1)
  %twice = f32[262144,1] add(%x, %x)
  %g = f32[1048576,1] all-gather(%twice), channel_id=1, replica_groups={}, dimensions={0}, use_global_device_ids=true
  ROOT %d = f32[1,1] dot(%y, %g), lhs_contracting_dims={1}, rhs_contracting_dims={0})");
  const auto arena = [&](std::optional<WindowedEinsumOptions> options) {
    const auto module = parse_module(text);
    if (options) REQUIRE(loop_windowed_einsums(*module, *options));
    return plan_memory(*module).arena_bytes;
  };
  const int64_t slice = 262144 * 4;
  CHECK(arena(std::nullopt) >= 5 * slice);
  // The slice of the other operand that meets it is one more.
  CHECK(arena(always()) < 3 * slice + 65536);
  CHECK(arena(always(true)) < 5 * slice + 65536);
}

}  // namespace gspmd::windowed_einsum_test
