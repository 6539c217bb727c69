#pragma once

#include <cstdint>
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
  // Results of the devices of this process, of groups that are active.
  void run(const std::vector<char>& active, std::vector<std::vector<std::byte*>>& tables,
           Transport& transport, const std::string& what);

 private:
  // Devices one after the other in a group and in one process.
  struct Run {
    int64_t process = 0;
    std::vector<int64_t> devices;
  };
  static std::vector<Run> runs_of(const std::vector<int64_t>& group,
                                  const std::vector<int64_t>& process_of);
  bool is_cheaper(const std::vector<Run>& runs) const;
  void reduce(const std::vector<Run>& runs, int64_t operand,
              std::vector<std::vector<std::byte*>>& tables, Transport& transport,
              const std::string& what);
  void fold(const Run& run, bool is_first, int64_t operand, int64_t from, int64_t elements,
            const std::vector<std::vector<std::byte*>>& tables);

  const CollectiveStep& step_;
  int64_t self_;
  std::vector<char> chained_;
  std::vector<std::vector<Run>> runs_;       // by group; empty: not chained
  std::vector<std::byte> handed_, partial_;  // of the chunk before, and of this one
};

}  // namespace gspmd
