#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/collective_run.h"
#include "runtime/transport.h"

namespace gspmd {

// All-reduces of groups that have runs of devices in several processes: each process adds its
// devices' values, in the group's order, to what comes from the process before it, and hands on;
// from the last the results go back. Large values go in chunks, so that all are busy at once.
class ChainReduce {
 public:
  // `process_of`: by device.
  ChainReduce(const CollectiveStep& step, const std::vector<int64_t>& process_of, int64_t self);

  // By group: whether it is reduced so; it is where that sends less than everybody's values to all.
  const std::vector<char>& chained() const { return chained_; }
  // Bytes that one group sends between all processes.
  int64_t bytes(size_t group) const;
  // Begins to make the results of the devices of this process, of groups that are active.
  void begin(const std::vector<char>& active, std::vector<std::vector<std::byte*>>& tables,
             Transport& transport, int tag);
  // Goes on, as far as it does without waiting, or to the end. Whether that is reached.
  bool progress(bool waits, const std::string& what);

 private:
  // Devices one after the other in a group and in one process.
  struct Run {
    int64_t process = 0;
    std::vector<int64_t> devices;
  };
  static std::vector<Run> runs_of(const std::vector<int64_t>& group,
                                  const std::vector<int64_t>& process_of);
  bool is_cheaper(const std::vector<Run>& runs) const;
  // What runs: one operand of one group.
  struct Job {
    const std::vector<Run>* runs;
    int64_t operand;
    int64_t own = 0;  // which run is this process's
  };
  int64_t elements() const;
  int64_t chunks() const;
  int64_t count(int64_t chunk) const;  // of elements
  bool is_chunk(int64_t chunk) const { return chunk >= 0 && chunk < chunks(); }
  std::byte* result(size_t device, int64_t chunk) const;
  void exchange();
  void compute();
  void fold(int64_t chunk, std::byte* target);

  const CollectiveStep& step_;
  int64_t self_;
  std::vector<char> chained_;
  std::vector<std::vector<Run>> runs_;  // by group; empty: not chained

  // Of what is under way.
  std::deque<Job> jobs_;  // the first is at step `at_`
  int64_t at_ = 0;
  std::vector<std::vector<std::byte*>>* tables_ = nullptr;
  Transport* transport_ = nullptr;
  int tag_ = 0;
  std::optional<ExchangeId> begun_;
  std::vector<std::byte> handed_, partial_;  // of the chunk before, and of this one
};

}  // namespace gspmd
