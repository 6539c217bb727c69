#pragma once

// From a traced function to a program that is ready to run.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/api/executable.h"
#include "gspmd/base/export.h"
#include "gspmd/mesh/mesh.h"
#include "gspmd/passes/collectives/all_reduce.h"
#include "gspmd/passes/complete/propagate.h"

namespace gspmd {

// Weight-update sharding (arXiv:2004.13336): the devices along `axes`, which would all do the same
// update, each do a part of it and hold that part of weights and slots from step to step. Where a
// step computes the next value of an argument's leaf from the last one element by element, with
// gradients, slots, numbers and norms, gradients are reduce-scattered, and a weight is gathered
// once where it is first read. Arguments that are donated are looked at, or all whose next value is
// returned where none is. What is split over the axes already stays as it is. An array that no dim
// divides evenly lies flat on the devices, in ceil(size / devices) elements on each; it keeps its
// shape for all who read, save or pass it.
struct WeightUpdate {
  std::vector<std::string> axes = {};  // of the mesh, major first; empty: not sharded
  // What weights are sent as: bf16 halves the bytes of the gather. Others than the update read the
  // rounded weight. Default: the dtype that they have.
  std::optional<DType> gather_dtype = {};
  int64_t min_elements = 0;  // smaller tensors stay whole on every device
};

// How a function is compiled. Sizes are in bytes, of one device.
struct CompileOptions {
  Mesh mesh = {};                    // default: one device
  std::vector<int64_t> donate = {};  // arguments whose storage results may take over
  std::vector<std::string> argument_names =
      {};                          // used in paths and messages; default arg0, arg1, ...
  std::string name = "step";       // of the HLO module
  int threads = 0;                 // worker threads; 0: the machine's cores
  bool reference_kernels = false;  // run every op by its slow, plain kernel
  bool poison = false;             // fill unused memory with NaN before every run (tests)
  // Ends a run at the first operation that makes a NaN or an infinity of finite numbers, and names
  // it, its line, the device and the element. Slow: every value is looked at.
  bool check_numbers = false;
  // Whose rules complete the shardings: GSPMD's, or Shardy's, which `automatic` takes for modules
  // that say their shardings in the dialect `sdy`.
  Strategy strategy = Strategy::automatic;
  ShardyOptions shardy = {};        // of Shardy's rules
  bool combine_collectives = true;  // join independent collectives of one kind and group
  bool cse_across_phases = false;   // let backward reuse values gathered in forward
  WeightUpdate weight_update = {};  // off; UserError: on, and the step updates nothing
  // Products with gathered operands of 256 MiB and more on a device as loops over slices, on rings
  // of up to 32 devices: less memory, more steps. Off, the instructions do not depend on the sizes
  // of the mesh's axes.
  bool windowed_einsum = false;
  AllReduceOptions all_reduce = {};  // one collective, or several that come to the same
  bool prepare = true;               // false: only inspect; nothing can be run
  // Bytes per device. Where the plan is above it, values are made again where they are read late,
  // which stats().recomputations lists; UserError where that is not enough.
  int64_t memory_limit = INT64_MAX;
  std::vector<std::string> disabled_passes = {};  // names as in pass_names()
  // Messages, one call each; the library itself never prints.
  std::function<void(const std::string& message)> log = {};
  std::function<void(const std::string& pass, double seconds)> progress = {};  // after each pass
  std::vector<std::string> dump_after = {};  // pass names, or "all"
  std::function<void(const std::string& pass, const std::string& text)> dump = {};
  Site site = Site::here();  // the user's line, for messages
};

namespace detail {
GSPMD_API TraceOptions trace_options_of(const CompileOptions& options);
GSPMD_API std::shared_ptr<ExecutableBase::Impl> compile_traced(Traced traced,
                                                               const CompileOptions& options);
}  // namespace detail

// Traces `fn` on the arguments' shapes, completes the sharding, partitions for options.mesh and
// makes the program ready to run. Arguments are arrays or shapes alone (a mesh and model too large
// to run can be compiled with `prepare = false` and inspected). Parameters and results that are not
// annotated get the sharding that completion finds for them. UserError: what cannot be compiled,
// and a memory plan above the limit, with the largest tensors and the lines that made them. Gives
// an Executable of the results' and the arguments' trees of Array.
template <class Fn, class... Args>
auto compile(Fn fn, const CompileOptions& options, const Args&... args) {
  if constexpr (detail::check_traced<Fn, Args...>()) {
    using Result = rebind_t<detail::traced_result_t<Fn, Args...>, Array>;
    Result prototype;
    Traced traced =
        detail::trace_function(detail::trace_options_of(options), fn, &prototype, args...);
    return Executable<Result, rebind_t<Args, Array>...>(
        detail::compile_traced(std::move(traced), options), std::move(prototype));
  }
}

}  // namespace gspmd
