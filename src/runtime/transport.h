#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gspmd {

// Bytes that go to a process, or come from it.
struct Parcel {
  int64_t process = 0;
  std::span<std::byte> bytes;
};

constexpr int64_t kSharedBytes = 32 << 20;  // of a process; pages that nobody touches take none

// An exchange that has begun, of those of one transport.
using ExchangeId = int64_t;

// What carries bytes between the processes of a job. Inside a process devices read each other's
// memory. All processes make the same calls in the same order, but for those of different tags; one
// thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int64_t process() const = 0;  // this one
  virtual int64_t count() const = 0;    // of processes
  // Sends and receives all parcels and waits for them; none are of this process, none empty. What
  // p sends to q are what q receives from p: as many, of the same sizes, in the same order. `what`
  // names the operation in messages. ExecutionError: another process failed or ended (with what it
  // said), or has not come within the time limit.
  void exchange(std::span<const Parcel> out, std::span<const Parcel> in, std::string_view what) {
    finish(begin(out, in, 0), what);
  }
  // The same in two steps, several at a time; their bytes stay until the exchange is finished.
  // Parcels between two processes meet by `tag`, 0 to 32,000, and among those of one tag in order.
  virtual ExchangeId begin(std::span<const Parcel> out, std::span<const Parcel> in, int tag) = 0;
  // Whether finish() would not wait. Errors wait until then.
  virtual bool is_done(ExchangeId id) = 0;
  virtual void finish(ExchangeId id, std::string_view what) = 0;
  // Waits until one of them, of at least one, is done, or for an error.
  virtual void wait_any(std::span<const ExchangeId> ids, std::string_view what) = 0;
  // Memory of a process, `kSharedBytes`, that processes of the same machine touch as well: where
  // `touches(of, by)`, which all processes know alike. Empty where this one does not. What is
  // written before a parcel is sent is there when it has come.
  virtual std::span<std::byte> shared_memory(int64_t) { return {}; }
  virtual bool touches(int64_t /*of*/, int64_t /*by*/) const { return false; }
  // This process failed: says so to the others, whose waits end with `message`. No exchange is
  // possible after it.
  virtual void fail(const std::string& message) = 0;
};

// Of the process that this thread stands for; nullptr where the program runs by itself.
Transport* current_transport();

// Stands for a process on this thread as long as it lives: for tests.
class TransportScope {
 public:
  explicit TransportScope(Transport* transport);
  TransportScope(const TransportScope&) = delete;
  TransportScope& operator=(const TransportScope&) = delete;
  ~TransportScope();

 private:
  Transport* before_;
  bool was_set_;
};

// --- Of the same size in every process
// Every process's bytes, by process.
std::vector<std::vector<std::byte>> gather_equal(Transport& transport,
                                                 std::span<const std::byte> own,
                                                 std::string_view what);

// --- Of any size
std::vector<std::string> gather_texts(Transport& transport, const std::string& own,
                                      std::string_view what);

// Every process says what it is about to do, and `key`, the same number on all of them, or an
// ExecutionError says who does what.
void agree(Transport& transport, uint64_t key, const std::string& what);

// The transport of MPI, connected by the first call; nullptr where this program was started by
// itself. ExecutionError: it was not, but the library is built without MPI.
Transport* mpi_transport();
// Processes of the job on this machine.
int64_t mpi_processes_here();
// Ends the job on all processes. Does not return where there are several.
void mpi_end_job(const std::string& message, int code);

}  // namespace gspmd
