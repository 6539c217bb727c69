#pragma once

// Threads of this process that stand for the processes of a job.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>

#include "gspmd/base/error.h"
#include "runtime/transport.h"

namespace gspmd {

// What the threads share.
struct ThreadJob {
  // `shares`: processes touch each other's memory.
  explicit ThreadJob(int64_t processes, bool shares = false) : count(processes) {
    for (int64_t p = 0; shares && p < processes; ++p)
      shared.push_back(std::make_unique_for_overwrite<std::byte[]>(kSharedBytes));
  }
  const int64_t count;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::tuple<int64_t, int64_t, int>, std::deque<std::vector<std::byte>>>
      sent;                                          // {from, to, tag}
  std::vector<std::unique_ptr<std::byte[]>> shared;  // by process; empty: none touches another's
  std::string failure;
  std::map<std::pair<int64_t, int64_t>, int64_t> bytes;  // {from, to}
};

// One of them.
class ThreadTransport final : public Transport {
 public:
  ThreadTransport(ThreadJob& job, int64_t process) : job_(job), process_(process) {}
  int64_t process() const override { return process_; }
  int64_t count() const override { return job_.count; }

  std::span<std::byte> shared_memory(int64_t process) override {
    return {job_.shared.at(size_t(process)).get(), kSharedBytes};
  }
  // All but the last process that of the one before.
  bool touches(int64_t, int64_t by) const override {
    return !job_.shared.empty() && by + 1 < job_.count;
  }

  ExchangeId begin(std::span<const Parcel> out, std::span<const Parcel> in, int tag) override {
    const std::lock_guard lock(job_.mutex);
    for (const Parcel& parcel : out) {
      job_.sent[{process_, parcel.process, tag}].emplace_back(parcel.bytes.begin(),
                                                              parcel.bytes.end());
      job_.bytes[{process_, parcel.process}] += std::ssize(parcel.bytes);
    }
    job_.changed.notify_all();
    begun_[++last_] = {{in.begin(), in.end()}, tag};
    for (const Parcel& parcel : out)
      lent_[last_].emplace_back(parcel,
                                std::vector<std::byte>(parcel.bytes.begin(), parcel.bytes.end()));
    return last_;
  }

  bool is_done(ExchangeId id) override {
    const std::lock_guard lock(job_.mutex);
    return is_there(id);
  }

  void wait_any(std::span<const ExchangeId> ids, std::string_view what) override {
    std::unique_lock lock(job_.mutex);
    const auto any = [&] {
      return std::any_of(ids.begin(), ids.end(), [&](ExchangeId id) { return is_there(id); });
    };
    if (!job_.changed.wait_for(lock, kPatience, any)) execution_error("{}: nothing comes", what);
    if (!job_.failure.empty()) throw ExecutionError(job_.failure, Site{});
  }

  void finish(ExchangeId id, std::string_view what) override {
    std::unique_lock lock(job_.mutex);
    const auto [in, tag] = std::move(begun_.at(id));
    begun_.erase(id);
    for (const auto& [parcel, bytes] : lent_[id])  // what goes out stays as it was until then
      if (std::memcmp(parcel.bytes.data(), bytes.data(), bytes.size()) != 0)
        internal_error("{}: {} bytes for process {} changed on their way", what, bytes.size(),
                       parcel.process);
    lent_.erase(id);
    for (const Parcel& parcel : in) {
      auto& queue = job_.sent[{parcel.process, process_, tag}];
      const auto ready = [&] { return !queue.empty() || !job_.failure.empty(); };
      if (!job_.changed.wait_for(lock, kPatience, ready))
        execution_error("{}: process {} does not come", what, parcel.process);
      if (!job_.failure.empty()) throw ExecutionError(job_.failure, Site{});
      if (queue.front().size() != parcel.bytes.size())
        internal_error("{}: {} bytes come from process {}, expected {}", what, queue.front().size(),
                       parcel.process, parcel.bytes.size());
      std::memcpy(parcel.bytes.data(), queue.front().data(), parcel.bytes.size());
      queue.pop_front();
    }
  }

  void fail(const std::string& message) override {
    const std::lock_guard lock(job_.mutex);
    if (job_.failure.empty()) job_.failure = fmt::format("process {}: {}", process_, message);
    job_.changed.notify_all();
  }

 private:
  static constexpr auto kPatience = std::chrono::seconds(60);  // where the test would hang

  // With the mutex. Of those of one tag, the first that is not finished.
  bool is_there(ExchangeId id) {
    const auto& [in, tag] = begun_.at(id);
    std::map<int64_t, size_t> wanted;
    for (const Parcel& parcel : in) ++wanted[parcel.process];
    return !job_.failure.empty() ||
           std::all_of(wanted.begin(), wanted.end(), [&, tag = tag](const auto& want) {
             return job_.sent[{want.first, process_, tag}].size() >= want.second;
           });
  }

  ThreadJob& job_;
  const int64_t process_;
  ExchangeId last_ = 0;
  std::map<ExchangeId, std::pair<std::vector<Parcel>, int>> begun_;
  std::map<ExchangeId, std::vector<std::pair<Parcel, std::vector<std::byte>>>> lent_;
};

// body(process) on a thread for each process. Returns what each threw, "" for nothing.
inline std::vector<std::string> run_as_processes(ThreadJob& job,
                                                 const std::function<void(int64_t)>& body) {
  std::vector<std::string> errors(static_cast<size_t>(job.count));
  std::vector<std::thread> threads;
  for (int64_t p = 0; p < job.count; ++p)
    threads.emplace_back([&, p] {
      ThreadTransport transport(job, p);
      const TransportScope scope(&transport);
      try {
        body(p);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(p)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace gspmd
