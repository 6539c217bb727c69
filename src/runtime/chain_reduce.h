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
// from the last the results go back. Values go in chunks, several at a time on their way, so that
// all processes are busy at once; small values share one. Where the next process touches this one's
// memory, it reads the sums there and puts the results in their place, and messages only say so.
class ChainReduce {
 public:
  // `process_of`: by device.
  ChainReduce(const CollectiveStep& step, const std::vector<int64_t>& process_of, int64_t self);

  // By group: whether it is reduced so; it is where that sends less than everybody's values to all.
  const std::vector<char>& chained() const { return chained_; }
  // Bytes that one group sends between all processes.
  int64_t bytes(size_t group) const;
  // Begins to make the results of the devices of this process, of groups that are active. `room`
  // grows to what chunks take, and belongs to them until the end, as the `flight`-th part of the
  // shared memory does: the same number in all processes.
  void begin(const std::vector<char>& active, std::vector<std::vector<std::byte*>>& tables,
             Transport& transport, int tag, std::vector<std::byte>& room, int64_t flight);
  // Goes on, as far as it does without waiting, or to the end. Whether that is reached.
  bool progress(bool waits, const std::string& what);

 private:
  // Devices one after the other in a group and in one process.
  struct Run {
    int64_t process = 0;
    std::vector<int64_t> devices;
  };
  // Groups whose runs lie in the same processes, in this order.
  struct Chain {
    std::vector<int64_t> processes;
    size_t own = 0;  // which of them is this one
    std::vector<size_t> groups;
  };
  // Elements of an operand, on the devices of a group in this process.
  struct Piece {
    const std::vector<int64_t>* devices = nullptr;
    int64_t operand = 0, first = 0, count = 0;
    int64_t sum_at = 0, result_at = 0;  // bytes from the chunk's start
  };
  struct Chunk {
    std::vector<Piece> pieces;
    int64_t sum_bytes = 0, result_bytes = 0;  // of the messages
  };
  // What a chunk waits for, one after the other: a sum from the process before, its going to the
  // next, the result from there, its going to the one before.
  enum class Stage : uint8_t { sum, handed, result, returned, free };
  struct Slot {  // of a chunk under way
    int64_t chunk = 0;
    Stage stage = Stage::sum;
    std::optional<ExchangeId> begun;
    std::byte token = {};  // in place of bytes that need not go
  };
  // Where chunks lie, in rotation.
  struct Room {
    std::byte* data = nullptr;
    int64_t places = 1, place_bytes = 0;
    std::byte* place(int64_t chunk) const { return data + chunk % places * place_bytes; }
  };

  static std::vector<Run> runs_of(const std::vector<int64_t>& group,
                                  const std::vector<int64_t>& process_of);
  bool is_cheaper(const std::vector<Run>& runs) const;
  void add_to_chain(size_t group);
  void begin_chain();
  void cut(const Chain& chain);
  void add_pieces(Piece piece, int64_t most_bytes);
  bool is_first() const { return chain_.own == 0; }
  bool is_last() const { return chain_.own + 1 == chain_.processes.size(); }
  const Shape& shape(int64_t operand) const { return step_.node->operand(operand)->shape; }
  std::byte* entry(int64_t device, int64_t argument, int64_t element) const;
  int64_t places(size_t position) const;
  std::byte* shared(size_t of, size_t by) const;
  bool go_on(const std::string& what);
  void advance(Slot& slot);
  void exchange(Slot& slot, bool sends, size_t with, int64_t bytes);
  std::vector<ExchangeId> awaited() const;
  void fold(const Piece& piece, const std::byte* from, std::byte* chunk) const;
  void join(const Piece& piece, int64_t begin, int64_t n, const std::byte* so_far,
            std::byte* sum) const;
  void add_in_turn(const Piece& piece, int64_t begin, int64_t n, const std::byte* so_far,
                   std::byte* sum) const;
  void finish_block(const Piece& piece, int64_t begin, int64_t n, std::byte* chunk) const;
  void give_block(const Piece& piece, int64_t begin, int64_t n, const std::byte* done) const;
  void give(const Piece& piece, const std::byte* chunk) const;

  const CollectiveStep& step_;
  int64_t self_;
  bool streamed_ = false;  // results go past the caches
  std::vector<char> chained_;
  std::vector<std::vector<Run>> runs_;  // by group; empty: not chained
  std::vector<Chain> chains_;           // that this process is in

  // Of what is under way.
  std::deque<Chain> later_;  // with groups that are active
  Chain chain_;
  std::vector<Chunk> chunks_;
  int64_t begun_ = 0;  // chunks
  Room own_;           // for the sums that go on from here
  Room previous_;      // of the process before, where this one touches it
  bool next_touches_ = false;
  std::deque<Slot> slots_;  // by chunk: none is further than the one before
  std::vector<std::vector<std::byte*>>* tables_ = nullptr;
  Transport* transport_ = nullptr;
  int tag_ = 0;
  std::vector<std::byte>* room_ = nullptr;
  int64_t flight_ = 0;
};

}  // namespace gspmd
