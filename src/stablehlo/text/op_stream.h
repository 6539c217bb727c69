#pragma once

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {

// The ops of a body in order. A long one is read ahead by a thread of its own, in tables and memory
// of its own: who takes the ops shares nothing with it but those that it has handed over.
class OpStream {
 public:
  OpStream(const Syntax& syntax, const UnreadBody& body);
  ~OpStream();
  OpStream(const OpStream&) = delete;
  OpStream& operator=(const OpStream&) = delete;

  // The next one, which lives until the call after it; nullptr behind the last. Throws what reading
  // it threw, when those before it were taken.
  const Op* next();
  // Where the closing brace stands, once next() has given nullptr.
  size_t end() { return syntax_.cursor.position(); }

 private:
  struct Batch {
    Arena arena;
    Ops ops;
    size_t count = 0;          // of whole ops
    std::exception_ptr error;  // behind them
    bool is_last = false;
  };
  void fill(Batch& batch, size_t most);
  void read_ahead();
  Batch* take();

  Syntax syntax_;
  OpReader reader_;
  std::array<Batch, 3> batches_;
  Batch* now_ = nullptr;
  size_t at_ = 0;  // in it
  // Batches that were filled and given back, under the lock.
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t filled_ = 0, returned_ = 0, taken_ = 0;
  bool stops_ = false;
  std::thread thread_;  // of a long body
};

}  // namespace gspmd::stablehlo
