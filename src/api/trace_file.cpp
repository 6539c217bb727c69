#include "gspmd/api/trace_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/atomic_file.h"

namespace gspmd {
namespace {

// Text of JSON values, one an event, handed to the file in pieces.
class EventWriter {
 public:
  explicit EventWriter(const std::string& path) : file_(path) {}

  void text(std::string_view text) {
    pending_ += text;
    if (pending_.size() > (1 << 20)) flush();
  }
  void event(const std::string& event) {
    text(first_ ? "\n" : ",\n");
    first_ = false;
    text(event);
  }
  void close() {
    flush();
    file_.commit();
  }

 private:
  void flush() {
    file_.write(written_, std::as_bytes(std::span(pending_)));
    written_ += static_cast<int64_t>(pending_.size());
    pending_.clear();
  }

  io::AtomicFile file_;
  std::string pending_;
  int64_t written_ = 0;
  bool first_ = true;
};

// Text of a file may hold what is not UTF-8.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Microseconds, which the format counts in, to the nanosecond.
std::string micros(int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

const char* category(TraceSite::Kind kind) {
  switch (kind) {
    case TraceSite::op:
      return "op";
    case TraceSite::collective:
      return "collective";
    case TraceSite::loop:
      return "loop";
    case TraceSite::branch:
      return "branch";
  }
  return "";
}

// What is the same for all events of a site: from its name to its arguments, left open.
std::string site_text(const TraceSite& site) {
  std::string text = fmt::format(R"("name":{},"cat":"{}","args":{{"opcode":{})", quoted(site.name),
                                 category(site.kind), quoted(site.opcode));
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) text += fmt::format(R"(,"{}":{})", key, quoted(value));
  };
  add("op_name", site.op_name);
  add("shape", site.shape);
  add("source", site.source);
  if (site.kind == TraceSite::op || site.kind == TraceSite::collective)
    text += fmt::format(R"(,"bytes":{})", site.bytes);
  add("axes", site.axes);
  add("groups", site.groups);
  return text;
}

std::string complete(int64_t device, int64_t begin, int64_t end, std::string_view rest) {
  return fmt::format(R"({{"ph":"X","pid":0,"tid":{},"ts":{},"dur":{},{}}})", device, micros(begin),
                     micros(end - begin), rest);
}

void write_names(EventWriter& out, const RunTrace& trace, const std::string& name) {
  const std::string process =
      trace.mesh ? fmt::format("{} on {}", name, to_string(*trace.mesh)) : name;
  out.event(fmt::format(R"({{"ph":"M","pid":0,"name":"process_name","args":{{"name":{}}}}})",
                        quoted(process)));
  for (int64_t d = 0; d < trace.num_devices; ++d) {
    out.event(fmt::format(
        R"({{"ph":"M","pid":0,"tid":{0},"name":"thread_name","args":{{"name":"device {0}"}}}})",
        d));
    out.event(fmt::format(
        R"({{"ph":"M","pid":0,"tid":{0},"name":"thread_sort_index","args":{{"sort_index":{0}}}}})",
        d));
  }
}

void write_counter(EventWriter& out, int64_t device, int64_t at, int64_t bytes) {
  out.event(fmt::format(
      R"({{"ph":"C","pid":0,"ts":{},"name":"arena of device {}","args":{{"live bytes":{}}}}})",
      micros(at), device, bytes));
}

}  // namespace

void write_trace(const std::string& path, const RunTrace& trace, const std::string& name) {
  EventWriter out(path);
  out.text(R"({"displayTimeUnit":"ms","otherData":{)");
  out.text(fmt::format(R"("devices":{},"peak_live_bytes":{},"dropped_events":{}}},"traceEvents":[)",
                       trace.num_devices, trace.peak_live_bytes, trace.dropped));
  write_names(out, trace, name);
  std::vector<std::string> sites;
  for (const TraceSite& site : trace.sites) sites.push_back(site_text(site));
  const auto devices = static_cast<size_t>(trace.num_devices);
  std::vector<int64_t> live(devices, -1), last(devices, 0);
  for (const TraceEvent& event : trace.events) {
    const auto device = static_cast<size_t>(event.device);
    const TraceSite& site = trace.sites[static_cast<size_t>(event.site)];
    std::string rest = sites[static_cast<size_t>(event.site)];
    if (site.kind == TraceSite::collective)
      rest += fmt::format(R"(,"wait_us":{})", micros(event.waited));
    out.event(complete(event.device, event.begin, event.end, rest + "}"));
    if (event.waited > 0)
      out.event(complete(event.device, event.begin, event.begin + event.waited,
                         R"("name":"wait","cat":"wait")"));
    if (live[device] != site.live_bytes)
      write_counter(out, event.device, event.begin + event.waited, site.live_bytes);
    live[device] = site.live_bytes;
    last[device] = std::max(last[device], event.end);
  }
  for (size_t d = 0; d < devices; ++d) write_counter(out, static_cast<int64_t>(d), last[d], 0);
  out.text("\n]}\n");
  out.close();
}

}  // namespace gspmd
