#include "mpi/run_job.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace gspmd {

std::string scratch(const std::string& name) {
  const std::string path = fmt::format(GSPMD_BINARY_DIR "/tests/mpi-{}-{}", getpid(), name);
  std::filesystem::remove_all(path);
  return path;
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

JobResult run_job(int processes, const std::string& line, const std::string& set) {
  return run_started(processes == 1 ? "" : fmt::format(GSPMD_MPIEXEC " -n {}", processes), line,
                     set);
}

JobResult run_started(const std::string& start, const std::string& line, const std::string& set) {
  // mpirun refuses to run for root unless it is told twice; more processes than cores likewise.
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  const std::string script = scratch("line"), out = scratch("out"), err = scratch("err");
  write_file(script, "P=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}\n" + line + "\n");
  const int status = std::system(
      fmt::format("{} timeout 120 {} sh {} >{} 2>{}", set, start, script, out, err).c_str());
  JobResult result{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
  for (const std::string& path : {script, out, err}) std::filesystem::remove(path);
  return result;
}

}  // namespace gspmd
