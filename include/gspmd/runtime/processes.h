#pragma once

// One program in several processes, started by mpirun: who this process is, and how a job ends.

#include <cstdint>
#include <string>
#include <vector>

#include "gspmd/base/export.h"

namespace gspmd {

// Devices of a mesh, one after the other.
struct DeviceRange {
  int64_t first = 0;                              // the lowest
  int64_t last = 0;                               // one more than the highest
  int64_t count() const { return last - first; }  // how many
  // Whether it is one of them.
  bool contains(int64_t device) const { return device >= first && device < last; }
};

// Of the job that this process belongs to: 0 and 1 for a program that was started by itself. The
// first call of any of these functions connects the processes. ExecutionError where mpirun started
// several processes of a library that was built without MPI.
GSPMD_API int64_t process_index();
GSPMD_API int64_t process_count();  // at least 1
GSPMD_API bool is_first_process();  // of index 0: the one that prints and writes files

// The devices of a mesh of `num_devices` that a process hosts: an equal block each, where the
// number divides, or as many as set_devices_per_process says. A mesh of one device is hosted by
// every process, each for itself. UserError where there are fewer devices, but more than one, than
// processes, or another number than was set.
GSPMD_API DeviceRange devices_of_process(int64_t num_devices, int64_t process);
GSPMD_API DeviceRange local_devices(int64_t num_devices);  // of this process

// The process of each device, by device; empty where the program runs by itself, and for a mesh of
// one device.
GSPMD_API std::vector<int64_t> process_of_devices(int64_t num_devices);

// For main(), before the first mesh: how many devices of every mesh of several each process hosts;
// one number for all, or one for each, in order. Empty: an equal block each, as before. All
// processes call it with the same numbers; ExecutionError otherwise. UserError: a number below 1,
// as many numbers as there are not processes.
GSPMD_API void set_devices_per_process(std::vector<int64_t> devices);

// Worker threads of this process where nobody says how many: the machine's cores, shared among the
// processes of the job on it.
GSPMD_API int default_threads();

// For main(): from here on, what processes other than the first print on the standard output is
// dropped. Where a program was started by itself nothing changes.
GSPMD_API void print_from_first_process();

// For main(), where the program fails: says `message`, a line, once on the standard error, by the
// first process that fails, with its number where there are several, and ends the job on all of
// them within seconds. Returns `code`, where this process is the only one.
GSPMD_API int end_job(const std::string& message, int code);

}  // namespace gspmd
