#pragma once

#include <string>

namespace gspmd {

struct JobResult {
  int code = -1;  // of mpirun; 124 where the job had to be ended
  std::string out, err;
};

// Runs a shell command line, in which $P is the number of a process, as `processes` processes by
// mpirun; 1 without it. `set` is put in front: "NAME=VALUE".
JobResult run_job(int processes, const std::string& line, const std::string& set = "");

// The same, started by `start`: "mpirun -n 2".
JobResult run_started(const std::string& start, const std::string& line,
                      const std::string& set = "");

// A name in the folder of the tests, of this process alone; what has it is removed.
std::string scratch(const std::string& name);
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);

}  // namespace gspmd
