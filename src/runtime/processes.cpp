#include "gspmd/runtime/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "gspmd/base/error.h"
#include "runtime/transport.h"

namespace gspmd {
namespace {

thread_local std::optional<Transport*> thread_transport;

constexpr size_t kSaid = 192;  // bytes of what a process says it does

// Of every process, or of each; empty: equal blocks.
struct DevicesPerProcess {
  std::mutex mutex;
  std::vector<int64_t> devices;
};
DevicesPerProcess& devices_per_process() {
  static DevicesPerProcess all;
  return all;
}

// The blocks that were set, nullopt where none were.
std::optional<DeviceRange> block_as_set(int64_t num_devices, int64_t process) {
  DevicesPerProcess& all = devices_per_process();
  const std::lock_guard lock(all.mutex);
  if (all.devices.empty()) return std::nullopt;
  DeviceRange range;
  int64_t sum = 0;
  for (int64_t p = 0; p < process_count(); ++p) {
    const int64_t own = all.devices[all.devices.size() == 1 ? 0 : static_cast<size_t>(p)];
    if (p == process) range = {sum, sum + own};
    sum += own;
  }
  if (sum != num_devices)
    user_error(
        "a mesh of {} devices on {} process{} that host {}, which makes {}; change the devices per "
        "process, or leave them out for equal blocks",
        num_devices, process_count(), process_count() == 1 ? "" : "es", fmt::join(all.devices, ","),
        sum);
  return range;
}

struct Intent {
  uint64_t key = 0;
  char said[kSaid] = {};
};

}  // namespace

TransportScope::TransportScope(Transport* transport)
    : before_(thread_transport.value_or(nullptr)), was_set_(thread_transport.has_value()) {
  thread_transport = transport;
}

TransportScope::~TransportScope() {
  thread_transport = was_set_ ? std::optional(before_) : std::nullopt;
}

Transport* current_transport() { return thread_transport ? *thread_transport : mpi_transport(); }

std::vector<std::vector<std::byte>> gather_equal(Transport& transport,
                                                 std::span<const std::byte> own,
                                                 std::string_view what) {
  std::vector<std::vector<std::byte>> all(static_cast<size_t>(transport.count()),
                                          std::vector<std::byte>(own.begin(), own.end()));
  if (own.empty()) return all;
  std::vector<Parcel> out, in;
  for (int64_t p = 0; p < transport.count(); ++p) {
    if (p == transport.process()) continue;
    out.push_back({p, all[static_cast<size_t>(transport.process())]});
    in.push_back({p, all[static_cast<size_t>(p)]});
  }
  transport.exchange(out, in, what);
  return all;
}

std::vector<std::string> gather_texts(Transport& transport, const std::string& own,
                                      std::string_view what) {
  const auto size = static_cast<uint64_t>(own.size());
  const auto sizes = gather_equal(transport, std::as_bytes(std::span(&size, 1)), what);
  std::vector<std::string> texts;
  for (const std::vector<std::byte>& bytes : sizes) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    texts.emplace_back(length, '\0');
  }
  const int64_t self = transport.process();
  texts[static_cast<size_t>(self)] = own;
  std::vector<Parcel> out, in;
  for (int64_t p = 0; p < transport.count(); ++p) {
    std::string& text = texts[static_cast<size_t>(p)];
    std::string& mine = texts[static_cast<size_t>(self)];
    if (p == self) continue;
    if (!mine.empty()) out.push_back({p, std::as_writable_bytes(std::span(mine))});
    if (!text.empty()) in.push_back({p, std::as_writable_bytes(std::span(text))});
  }
  transport.exchange(out, in, what);
  return texts;
}

void agree(Transport& transport, uint64_t key, const std::string& what) {
  Intent own{key, {}};
  std::memcpy(own.said, what.data(), std::min(what.size(), kSaid - 1));
  const auto all = gather_equal(transport, std::as_bytes(std::span(&own, 1)), what);
  Intent first;
  std::memcpy(&first, all[0].data(), sizeof first);
  for (size_t p = 1; p < all.size(); ++p) {
    Intent other;
    std::memcpy(&other, all[p].data(), sizeof other);
    if (other.key == first.key) continue;
    execution_error(
        "processes disagree: process 0 {}, process {} {}; all processes of a job run the same "
        "programs and read the same arrays, in the same order",
        first.said, p, other.said);
  }
}

int64_t process_index() {
  const Transport* const transport = current_transport();
  return transport == nullptr ? 0 : transport->process();
}

int64_t process_count() {
  const Transport* const transport = current_transport();
  return transport == nullptr ? 1 : transport->count();
}

bool is_first_process() { return process_index() == 0; }

DeviceRange devices_of_process(int64_t num_devices, int64_t process) {
  const int64_t processes = process_count();
  if (num_devices <= 1) return {0, num_devices};
  if (const auto block = block_as_set(num_devices, process)) return *block;
  if (processes == 1) return {0, num_devices};
  if (num_devices < processes)
    user_error(
        "a mesh of {} devices on {} processes: each hosts at least one; start {} processes at "
        "most, or take a larger mesh",
        num_devices, processes, num_devices);
  return {process * num_devices / processes, (process + 1) * num_devices / processes};
}

std::vector<int64_t> process_of_devices(int64_t num_devices) {
  std::vector<int64_t> processes;
  for (int64_t p = 0; num_devices > 1 && process_count() > 1 && p < process_count(); ++p)
    processes.insert(processes.end(),
                     static_cast<size_t>(devices_of_process(num_devices, p).count()), p);
  return processes;
}

DeviceRange local_devices(int64_t num_devices) {
  return devices_of_process(num_devices, process_index());
}

void set_devices_per_process(std::vector<int64_t> devices) {
  const std::string text = fmt::format("{}", fmt::join(devices, ","));
  for (const int64_t own : devices)
    if (own < 1 || own > INT32_MAX)
      user_error("devices per process {}: each process hosts at least 1", text);
  if (devices.size() > 1 && std::ssize(devices) != process_count())
    user_error(
        "devices per process {}: {} numbers for {} process{}; give one for all, or one for each, "
        "and start as many processes",
        text, devices.size(), process_count(), process_count() == 1 ? "" : "es");
  if (process_count() > 1)
    agree(*current_transport(), std::hash<std::string>()(text),
          fmt::format("has {} devices per process", text.empty() ? "equal" : text));
  DevicesPerProcess& all = devices_per_process();
  const std::lock_guard lock(all.mutex);
  all.devices = std::move(devices);
}

int default_threads() {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (process_count() == 1 || thread_transport) return cores;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const int mine = known ? CPU_COUNT(&allowed) : cores;
  return std::max(1, mine / static_cast<int>(mpi_processes_here()));
}

void print_from_first_process() {
  if (is_first_process()) return;
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  std::fflush(stdout);
  ::dup2(nowhere, STDOUT_FILENO);
  ::close(nowhere);
}

int end_job(const std::string& message, int code) {
  try {
    if (process_count() > 1) mpi_end_job(message, code);
  } catch (const std::exception&) {  // it could not be connected, which the message says
  }
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", message.c_str());  // which may be full: nobody is to be told
  return code;
}

}  // namespace gspmd
