#include "tools/run_command.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace gspmd {
namespace {

std::string read_and_remove(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  std::remove(path.c_str());
  return text.str();
}

}  // namespace

CommandResult run_command(const std::string& arguments, const std::string& input) {
  const std::string base = fmt::format(GSPMD_BINARY_DIR "/tests/tools-{}", getpid());
  std::ofstream(base + ".in", std::ios::binary) << input;
  const std::string line =
      fmt::format(GSPMD_BINARY_DIR "/gspmd {0} <{1}.in >{1}.out 2>{1}.err", arguments, base);
  const int status = std::system(line.c_str());
  CommandResult result;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = read_and_remove(base + ".out");
  result.err = read_and_remove(base + ".err");
  std::remove((base + ".in").c_str());
  return result;
}

const char* const kNetwork = R"(HloModule network, num_partitions=8

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %main (x: f32[8,16], w1: f32[16,32], w2: f32[32,16]) -> (f32[8,16], f32[]) {
  %x = f32[8,16] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  %w1 = f32[16,32] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  %w2 = f32[32,16] parameter(2), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  %h = f32[8,32] dot(%x, %w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %zero = f32[] constant(0)
  %zeros = f32[8,32] broadcast(%zero), dimensions={}
  %r = f32[8,32] maximum(%h, %zeros)
  %y = f32[8,16] dot(%r, %w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="down" source_file="m.py" source_line=6}
  %s = f32[] reduce(%y, %zero), dimensions={0,1}, to_apply=%sum
  ROOT %t = (f32[8,16], f32[]) tuple(%y, %s)
}
)";

}  // namespace gspmd
