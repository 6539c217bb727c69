#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gspmd/runtime/processes.h"
#include "runtime/chain_reduce.h"
#include "runtime/program.h"
#include "runtime/transport.h"

namespace gspmd {

// What other processes' devices have, brought here while a program runs: the operands of
// collectives whose groups lie in several processes, predicates and selectors of loops and branches
// around such collectives. One worker calls, while the others wait.
class Remote {
 public:
  // ExecutionError where processes have different programs: says which process and instruction.
  Remote(const Program& program, Transport& transport);
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;
  ~Remote();

  // The same run begins on all processes. ExecutionError otherwise.
  void begin_run(int64_t run);
  // Begins to put operands of other processes' devices into memory of this one, and puts their
  // addresses into the tables, [device][argument]: of those that devices here read. Operands and
  // results stay where they are until finish(); several collectives may have begun.
  void begin(const CollectiveStep& step, const std::vector<char>& active,
             std::vector<std::vector<std::byte*>>& tables);
  // Waits until they are there.
  void finish(const CollectiveStep& step);
  // Goes on with what has begun, without waiting.
  void progress();
  // By group: whether finish() has made its results.
  const std::vector<char>& done(const CollectiveStep& step) const;
  // Bytes that a collective moves between all processes.
  int64_t bytes_across(const CollectiveStep& step, const std::vector<char>& active) const;
  // values[device] of this process's devices to all, and those of all others here.
  void share(std::vector<int32_t>& values, const Node& node);
  // A number for the bytes that all processes' devices have; equal bytes, equal numbers.
  std::vector<std::vector<std::byte>> digests(std::span<const std::span<const std::byte>> values,
                                              const Node& node);

  Transport& transport() const { return transport_; }
  const DeviceRange& local() const { return local_; }

 private:
  // Rows of an operand that a process needs of another one's device.
  struct Transfer {
    int64_t source = 0;  // device
    int64_t from = 0, to = 0;
    int64_t operand = 0;
    int64_t offset = 0, row = 0, stride = 0, rows = 1;  // bytes; how many rows
    bool whole() const { return rows == 1 || row == stride; }
    int64_t bytes() const { return row * rows; }
  };
  struct Plan {
    std::vector<Transfer> out, in;  // of this process; by process, both sides in the same order
    std::vector<std::pair<int64_t, int64_t>> across;  // device -> bytes that it sends in all
  };
  // Where an operand of another process's device lies while a collective runs.
  struct Place {
    int64_t device = 0, operand = 0, offset = 0;
  };

  // A collective that has begun.
  struct Flight {
    const CollectiveStep* step = nullptr;        // nullptr: none
    int64_t number = 0;                          // of the flight: the same in every process
    std::byte* room = nullptr;                   // of operands, for the largest collective
    std::vector<std::vector<std::byte>> packed;  // messages, by process: out, then in
    std::vector<std::byte> chunks;               // of sums
    std::vector<char> active;
    std::vector<std::vector<std::byte*>>* tables = nullptr;
    std::optional<ExchangeId> exchange;
  };

  class Planner;
  size_t index_of(const CollectiveStep& step) const {
    return static_cast<size_t>(&step - program_.collectives.data());
  }
  Flight& free_flight();
  static std::byte*& entry_of(const Flight& flight, int64_t device, int64_t operand);
  void pack(Flight& flight, std::vector<Parcel>& out, std::vector<Parcel>& in) const;
  void unpack(const Flight& flight);
  std::vector<Place> places_of(const Plan& plan, const CollectiveStep& step, int64_t& bytes) const;

  const Program& program_;
  Transport& transport_;
  DeviceRange local_;
  std::vector<DeviceRange> blocks_;  // by process
  uint64_t key_ = 0;                 // of the program's text
  std::vector<Plan> plans_;          // by collective
  std::vector<std::vector<Place>> places_;
  std::vector<ChainReduce> chains_;
  int64_t room_bytes_ = 0;
  std::deque<Flight> flights_;  // chains keep the address of their room
  uint32_t begun_ = 0;          // collectives so far: the same in every process
};

}  // namespace gspmd
