#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "gspmd/base/error.h"
#include "runtime/transport.h"

#ifdef GSPMD_HAS_MPI
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/shared_memory.h"
#endif

namespace gspmd {
namespace {

// Processes, as launchers tell those they start: OpenMPI's, MPICH's and others' with PMI; 0 where
// nothing does.
int launched_processes() {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* const size = std::getenv(name)) return std::atoi(size);
  return 0;
}

// Others with PMIx say no number.
bool started_by_launcher() {
  const int processes = launched_processes();
  return processes > 1 || (processes == 0 && std::getenv("PMIX_RANK") != nullptr);
}

}  // namespace

#ifdef GSPMD_HAS_MPI

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kFailed = 2, kLeft = 3, kAnswer = 4;  // tags
constexpr int kData = 16;                           // and those above
constexpr int64_t kMessageBytes = 1 << 30;          // of one message: counts are ints
constexpr size_t kMostText = 2000;                  // of a failure: sent without a receiver
constexpr auto kPatience = milliseconds(5);         // before a core of one's own is left to others
constexpr auto kGrace = seconds(2);                 // for what was sent before a process left
constexpr auto kAnswering = seconds(1);             // for those that wait to say that they do
constexpr auto kPrinting = milliseconds(200);       // for launchers to pass on what was said
constexpr auto kEnding = seconds(5);                // for the first that failed to end the job

// Seconds that a process waits for another one.
double time_limit() {
  constexpr double kUsual = 600;
  const char* const text = std::getenv("GSPMD_MPI_TIME_LIMIT");
  if (text == nullptr) return kUsual;
  char* end = nullptr;
  const double limit = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(limit > 0) || limit > 1e9)
    user_error("GSPMD_MPI_TIME_LIMIT={}: give a number of seconds above 0", text);
  return limit;
}

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    limit_ = time_limit();
    int has = 0, already = 0;
    MPI_Initialized(&already);
    if (already == 0) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &has);
    owns_ = already == 0;
    if (already != 0) MPI_Query_thread(&has);
    MPI_Comm_dup(MPI_COMM_WORLD, &world_);
    int rank = 0, size = 1;
    MPI_Comm_rank(world_, &rank);
    MPI_Comm_size(world_, &size);
    process_ = rank;
    count_ = size;
    left_.resize(static_cast<size_t>(size));
    if (count_ > 1 && has < MPI_THREAD_SERIALIZED)
      execution_error(
          "this MPI allows no calls from several threads; take a build of it that does");
  }

  int64_t process() const override { return process_; }
  int64_t count() const override { return count_; }
  int64_t processes_here() const { return processes_here_; }

  // Processes that share this one's cores: on the same machine, bound to the same set.
  void count_neighbours() {
    char name[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    MPI_Get_processor_name(name, &length);
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    ::sched_getaffinity(0, sizeof allowed, &allowed);
    std::string place(name);
    place.append(reinterpret_cast<const char*>(&allowed), sizeof allowed);
    const std::vector<std::string> all = gather_texts(*this, place, "the start of the job");
    processes_here_ = std::count(all.begin(), all.end(), place);
    shares_cores_ = processes_here_ > CPU_COUNT(&allowed);
  }
  void share_memory() { shared_.emplace(*this, kSharedBytes); }

  ExchangeId begin(std::span<const Parcel> out, std::span<const Parcel> in, int tag) override {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw ExecutionError(failure_, Site{});
    size_t id = 0;
    while (id < exchanges_.size() && exchanges_[id].begun) ++id;
    if (id == exchanges_.size()) exchanges_.emplace_back();
    Exchange& exchange = exchanges_[id];
    exchange.begun = true;
    for (const Parcel& parcel : in) post(exchange, parcel, kData + tag, true);
    exchange.receives = exchange.requests.size();
    for (const Parcel& parcel : out) post(exchange, parcel, kData + tag, false);
    return static_cast<ExchangeId>(id);
  }

  bool is_done(ExchangeId id) override {
    const std::lock_guard lock(mutex_);
    return !failure_.empty() || test(exchanges_[static_cast<size_t>(id)]);
  }

  void finish(ExchangeId id, std::string_view what) override {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw ExecutionError(failure_, Site{});
    wait({&id, 1}, what);
    Exchange& exchange = exchanges_[static_cast<size_t>(id)];
    exchange.begun = false;
    exchange.requests.clear();
    exchange.from.clear();
  }

  void wait_any(std::span<const ExchangeId> ids, std::string_view what) override {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw ExecutionError(failure_, Site{});
    wait(ids, what);
  }

  std::span<std::byte> shared_memory(int64_t process) override { return shared_->of(process); }
  bool touches(int64_t of, int64_t by) const override { return shared_->touches(of, by); }

  void fail(const std::string& message) override {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;  // another one did, which they know
    give_up();
    failed_here_ = true;
    failure_ = fmt::format("process {} of {}: {}", process_, count_, message);
    tell(kFailed);
  }

  [[noreturn]] void end(const std::string& message, int code) {
    fail(message);
    // The first of those that fail says so; the others leave it the time to end all.
    const std::lock_guard lock(mutex_);
    std::fflush(stdout);
    const auto lower = [&] { return !failed_here_ || first_failed_ < process_; };
    const auto start = Clock::now();
    while (!lower() && process_ > 0 && Clock::now() - start < milliseconds(500)) {
      receive_failure();
      std::this_thread::sleep_for(milliseconds(5));
    }
    if (lower()) std::this_thread::sleep_for(kEnding);
    std::fprintf(stderr, "%s\n", failure_.c_str());
    std::fflush(stderr);
    std::this_thread::sleep_for(kPrinting);
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

  // At the process's end.
  void leave() {
    const std::lock_guard lock(mutex_);
    if (!owns_) return;
    if (!failure_.empty()) std::_Exit(EXIT_FAILURE);  // others may wait for ever in MPI_Finalize
    failure_ = fmt::format("process {} of {} has ended", process_, count_);
    tell(kLeft);
    const auto end = Clock::now() + std::chrono::duration<double>(limit_);
    left_[static_cast<size_t>(process_)] = Clock::now();
    while (!all_left()) {
      if (const auto other = receive_failure()) {
        std::this_thread::sleep_for(kEnding);  // it says so and ends all
        std::_Exit(EXIT_FAILURE);
      }
      if (Clock::now() > end) {
        std::fprintf(stderr, "process %d of %d ended, but others did not within %g s\n",
                     static_cast<int>(process_), static_cast<int>(count_), limit_);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
      }
      std::this_thread::yield();
    }
    MPI_Comm_free(&world_);
    MPI_Finalize();
  }

 private:
  struct Exchange {
    std::vector<MPI_Request> requests;  // receives, then sends
    std::vector<int64_t> from;          // of each receive
    size_t receives = 0;
    bool begun = false;
  };

  void post(Exchange& exchange, const Parcel& parcel, int tag, bool receive) {
    const int other = static_cast<int>(parcel.process);
    const auto total = static_cast<int64_t>(parcel.bytes.size());
    for (int64_t at = 0; at < total; at += kMessageBytes) {
      const int size = static_cast<int>(std::min(kMessageBytes, total - at));
      MPI_Request& request = exchange.requests.emplace_back();
      if (receive) {
        MPI_Irecv(parcel.bytes.data() + at, size, MPI_BYTE, other, tag, world_, &request);
        exchange.from.push_back(parcel.process);
      } else {
        MPI_Isend(parcel.bytes.data() + at, size, MPI_BYTE, other, tag, world_, &request);
      }
    }
  }

  static bool test(Exchange& exchange) {
    int done = 0;
    MPI_Testall(static_cast<int>(exchange.requests.size()), exchange.requests.data(), &done,
                MPI_STATUSES_IGNORE);
    return done != 0;
  }

  // For one of them.
  void wait(std::span<const ExchangeId> ids, std::string_view what) {
    constexpr int kSpins = 200;  // between looks at what else came
    std::optional<Clock::time_point> start;
    bool yields = shares_cores_;
    while (true) {
      for (int i = 0; i < kSpins; ++i) {
        for (const ExchangeId id : ids)
          if (test(exchanges_[static_cast<size_t>(id)])) return;
        if (yields && i % 4 == 3) std::this_thread::yield();
      }
      const auto now = Clock::now();
      if (!start) start = now;
      yields |= now - *start > kPatience;
      if (const auto other = receive_failure()) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Isend(nullptr, 0, MPI_BYTE, static_cast<int>(*other), kAnswer, world_, &request);
        MPI_Request_free(&request);
        give_up();
        throw ExecutionError(failure_, Site{});
      }
      for (const int64_t process : awaited(ids)) {
        const auto& left = left_[static_cast<size_t>(process)];
        if (left && now - *left > kGrace)
          stop(fmt::format("{}: process {} of {} has ended its program before", what, process,
                           count_));
      }
      if (std::chrono::duration<double>(now - *start).count() > limit_) {
        stop(
            fmt::format("{}: nothing came from process {} of {} within {} s; {}see what it does, "
                        "or set GSPMD_MPI_TIME_LIMIT to more seconds",
                        what, first_late(ids), count_, limit_, silent_processes()));
      }
    }
  }

  // Processes that something has to come from.
  std::vector<int64_t> awaited(std::span<const ExchangeId> ids) const {
    std::vector<int64_t> processes;
    for (const ExchangeId id : ids) {
      const Exchange& exchange = exchanges_[static_cast<size_t>(id)];
      for (size_t i = 0; i < exchange.receives; ++i)
        if (exchange.requests[i] != MPI_REQUEST_NULL) processes.push_back(exchange.from[i]);
    }
    return processes;
  }

  int64_t first_late(std::span<const ExchangeId> ids) const {
    const std::vector<int64_t> processes = awaited(ids);
    if (!processes.empty()) return processes[0];
    return process_ == 0 ? 1 : 0;
  }

  // Who neither waits nor fails: "process 1 does not answer; ". Others wait for what waits for it.
  std::string silent_processes() {
    failed_here_ = true;
    failure_ = fmt::format("process {} of {} waits too long", process_, count_);
    tell(kFailed);
    std::vector<int64_t> silent;
    std::vector<bool> answered(static_cast<size_t>(count_), false);
    for (const auto start = Clock::now(); Clock::now() - start < kAnswering;) {
      const auto source = receive(kAnswer);
      if (source) answered[static_cast<size_t>(*source)] = true;
      if (const auto other = receive_failure()) answered[static_cast<size_t>(*other)] = true;
      std::this_thread::yield();
    }
    for (int64_t p = 0; p < count_; ++p)
      if (p != process_ && !answered[static_cast<size_t>(p)]) silent.push_back(p);
    if (silent.empty()) return "";
    return fmt::format("process {} does not answer; ", fmt::join(silent, ", "));
  }

  // Takes in one message of a kind that says nothing else; its sender.
  std::optional<int64_t> receive(int tag) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, tag, world_, &there, &status);
    if (there == 0) return std::nullopt;
    MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, tag, world_, MPI_STATUS_IGNORE);
    return status.MPI_SOURCE;
  }

  [[noreturn]] void stop(const std::string& message) {
    give_up();
    failed_here_ = true;
    failure_ = fmt::format("process {} of {}: {}", process_, count_, message);
    tell(kFailed);
    throw ExecutionError(failure_, Site{});
  }

  // Nothing shall be written into memory that its owner frees now.
  void give_up() {
    for (Exchange& exchange : exchanges_) {
      for (size_t i = 0; i < exchange.receives; ++i)
        if (exchange.requests[i] != MPI_REQUEST_NULL) MPI_Cancel(&exchange.requests[i]);
      for (MPI_Request& request : exchange.requests)
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
      exchange = {};
    }
  }

  // Small enough to go without anybody waiting for it.
  void tell(int tag) {
    const std::string& text = said_.emplace_back(failure_.substr(0, kMostText));
    for (int p = 0; p < static_cast<int>(count_); ++p) {
      if (p == process_) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_BYTE, p, tag, world_, &request);
      MPI_Request_free(&request);
    }
  }

  // Takes in who failed or left. The process that failed, where one did.
  std::optional<int64_t> receive_failure() {
    while (true) {
      int there = 0;
      MPI_Status status;
      for (const int tag : {kFailed, kLeft}) {
        MPI_Iprobe(MPI_ANY_SOURCE, tag, world_, &there, &status);
        if (there != 0) break;
      }
      if (there == 0) return std::nullopt;
      int size = 0;
      MPI_Get_count(&status, MPI_BYTE, &size);
      std::string text(static_cast<size_t>(size), '\0');
      MPI_Recv(text.data(), size, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, world_,
               MPI_STATUS_IGNORE);
      if (status.MPI_TAG == kLeft) {
        left_[static_cast<size_t>(status.MPI_SOURCE)] = Clock::now();
        continue;
      }
      if (failure_.empty()) failure_ = text;
      first_failed_ = std::min<int64_t>(first_failed_, status.MPI_SOURCE);
      return status.MPI_SOURCE;
    }
  }

  bool all_left() const {
    return std::all_of(left_.begin(), left_.end(), [](const auto& left) { return left; });
  }

  std::mutex mutex_;
  MPI_Comm world_ = MPI_COMM_NULL;
  bool owns_ = false;  // whether it initialised MPI
  int64_t process_ = 0, count_ = 1, processes_here_ = 1;
  bool shares_cores_ = true;          // with processes of the job: waiting keeps them from theirs
  double limit_ = 0;                  // seconds
  std::string failure_;               // what ended the communication; empty: nothing
  std::deque<std::string> said_;      // of this process to others
  int64_t first_failed_ = INT64_MAX;  // the lowest of the others that failed
  bool failed_here_ = false;          // it was this process's
  std::vector<std::optional<Clock::time_point>> left_;  // since when a process has ended
  std::deque<Exchange> exchanges_;                      // by id
  std::optional<SharedMemory> shared_;                  // with processes of this machine
};

MpiTransport* connect() {
  if (!started_by_launcher()) return nullptr;
  static auto* const transport = new MpiTransport;  // used until the process ends
  if (transport->count() == 1 && launched_processes() > 1) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(version, &length);
    const std::string_view text(version);
    execution_error(
        "{} processes were started, but each is alone: by the mpirun of another MPI than the one "
        "that the library is built with, which is {}; start it with that one's",
        launched_processes(), text.substr(0, text.find_first_of(",\n")));
  }
  std::atexit([] { transport->leave(); });
  if (transport->count() == 1) return nullptr;
  transport->count_neighbours();
  transport->share_memory();
  return transport;
}

MpiTransport* connected() {
  static MpiTransport* const transport = connect();
  return transport;
}

}  // namespace

Transport* mpi_transport() { return connected(); }

int64_t mpi_processes_here() {
  const MpiTransport* const transport = connected();
  return transport == nullptr ? 1 : transport->processes_here();
}

void mpi_end_job(const std::string& message, int code) {
  if (MpiTransport* const transport = connected()) transport->end(message, code);
}

#else

Transport* mpi_transport() {
  static const bool started = started_by_launcher();
  if (started)
    execution_error(
        "this program was started as several processes, but the library is built without MPI; "
        "build it with -DGSPMD_MPI=ON, or start it once");
  return nullptr;
}

int64_t mpi_processes_here() { return 1; }

void mpi_end_job(const std::string&, int) {}

#endif

}  // namespace gspmd
