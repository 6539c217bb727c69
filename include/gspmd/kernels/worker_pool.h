#pragma once

// Threads that run one function together.

#include <functional>
#include <memory>
#include <string_view>

#include "gspmd/base/export.h"

namespace gspmd {

// Workers that run one function together: `run(f)` calls f(worker) once on each worker 0..size()-1
// (the caller is worker 0) and returns when all are done; static assignment, spinning ~50-100 us
// before sleeping. An exception from any worker is rethrown (lowest worker's first) after all
// finished.
class GSPMD_API WorkerPool {
 public:
  virtual ~WorkerPool() = default;
  virtual int size() const = 0;  // number of workers
  // Calls f on every worker and waits.
  virtual void run(const std::function<void(int worker)>& f) = 0;
  // Inside run(): all workers wait for each other. Cheap (spinning); may be called many times.
  virtual void barrier(int worker) = 0;
};

enum class PoolKind { automatic, tbb, threads };  // automatic: oneTBB where built with it
// `workers` 0: the machine's cores. UserError below 0 or above 1,024.
GSPMD_API std::shared_ptr<WorkerPool> make_worker_pool(int workers = 0,
                                                       PoolKind kind = PoolKind::automatic);

}  // namespace gspmd
