#include "runtime/remote.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/pages.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "runtime/collective_run.h"

namespace gspmd {
namespace {

constexpr int64_t kAlone =
    1 << 15;  // bytes from which rows without gaps are a message of their own

std::string said(const Node& node) {
  return fmt::format("{}: \"{}\"", opcode_name(node.opcode()), node.name());
}

uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::string line_of(const std::string& text, size_t line) {
  size_t begin = 0;
  for (; line > 0 && begin < text.size(); --line)
    begin = std::min(text.find('\n', begin), text.size() - 1) + 1;
  std::string found = text.substr(begin, text.find('\n', begin) - begin);
  found.erase(0, found.find_first_not_of(' '));
  return begin >= text.size() ? "nothing" : found;
}

size_t first_difference(const std::string& a, const std::string& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(std::count(a.begin(), at.first, '\n'));
}

void check_same_program(Transport& transport, const std::string& text, uint64_t key) {
  const std::string what = "comparison of the programs";
  const auto keys = gather_equal(transport, std::as_bytes(std::span(&key, 1)), what);
  size_t other = 0;
  while (other < keys.size() && keys[other] == keys[0]) ++other;
  if (other == keys.size()) return;
  const std::vector<std::string> texts = gather_texts(transport, text, what);
  const size_t line = first_difference(texts[0], texts[other]);
  execution_error(
      "processes 0 and {} have different programs: line {} is \"{}\" in process 0, \"{}\" in "
      "process {}; start all with the same binary, options and environment",
      other, line + 1, line_of(texts[0], line), line_of(texts[other], line), other);
}

}  // namespace

// What each process needs of the others' devices for one collective.
class Remote::Planner {
 public:
  Planner(const std::vector<int64_t>& process_of, int64_t self)
      : process_of_(process_of), self_(self) {}

  // Groups that are `chained` need nothing.
  Plan plan(const CollectiveStep& step, const std::vector<char>& chained) {
    step_ = &step;
    plan_ = {};
    seen_.clear();
    bytes_.clear();
    if (step.reference) {
      for (int64_t source = 0; source < std::ssize(process_of_); ++source)
        for (int64_t to = 0; to <= process_of_.back(); ++to) operands(source, to);
    } else if (step.opcode == Opcode::collective_permute) {
      for (const auto& [target, source] : step.pairs) operands(source, process(target));
    } else {
      for (size_t g = 0; g < step.groups.size(); ++g)
        if (chained[g] == 0) add_group(step.groups[g]);
    }
    plan_.across.assign(bytes_.begin(), bytes_.end());
    const auto by = [](auto process) {
      return [=](const Transfer& a, const Transfer& b) { return a.*process < b.*process; };
    };
    std::stable_sort(plan_.out.begin(), plan_.out.end(), by(&Transfer::to));
    std::stable_sort(plan_.in.begin(), plan_.in.end(), by(&Transfer::from));
    return std::move(plan_);
  }

 private:
  int64_t process(int64_t device) const { return process_of_[static_cast<size_t>(device)]; }
  const Shape& shape(int64_t operand) const { return step_->node->operand(operand)->shape; }

  void add(Transfer transfer) {
    transfer.from = process(transfer.source);
    if (transfer.from == transfer.to || transfer.bytes() == 0) return;
    bytes_[transfer.source] += transfer.bytes();
    if (transfer.from == self_) plan_.out.push_back(transfer);
    if (transfer.to == self_) plan_.in.push_back(transfer);
  }

  void operand(int64_t source, int64_t to, int64_t i) {
    if (!seen_.emplace(source, to, i).second) return;
    const int64_t bytes = shape(i).bytes();
    add({source, 0, to, i, 0, bytes, bytes, 1});
  }

  void operands(int64_t source, int64_t to) {
    for (int64_t i = 0; i < step_->operands; ++i) operand(source, to, i);
  }

  // The self-th of `members` pieces along the collective's dim.
  void piece(int64_t source, int64_t to, int64_t i, int64_t self, int64_t members) {
    const Rows rows = rows_of(shape(i), step_->node->attrs.dimensions[0], members);
    add({source, 0, to, i, self * rows.row, rows.row, members * rows.row, rows.outer});
  }

  void add_group(const std::vector<int64_t>& group) {
    const bool is_whole =
        step_->opcode == Opcode::all_reduce || step_->opcode == Opcode::all_gather;
    const auto members = std::ssize(group);
    if (is_whole) {
      std::set<int64_t> processes;
      for (const int64_t device : group) processes.insert(process(device));
      for (const int64_t source : group)
        for (const int64_t to : processes) operands(source, to);
      return;
    }
    for (const int64_t source : group)
      for (int64_t self = 0; self < members; ++self) {
        const int64_t to = process(group[static_cast<size_t>(self)]);
        if (step_->node->attrs.dimensions.empty()) {
          operand(source, to, self);  // an all-to-all of tuples
        } else {
          for (int64_t i = 0; i < step_->operands; ++i) piece(source, to, i, self, members);
        }
      }
  }

  const std::vector<int64_t>& process_of_;
  int64_t self_;
  const CollectiveStep* step_ = nullptr;
  Plan plan_;
  std::set<std::tuple<int64_t, int64_t, int64_t>> seen_;  // source, to, operand
  std::map<int64_t, int64_t> bytes_;
};

Remote::Remote(const Program& program, Transport& transport)
    : program_(program),
      transport_(transport),
      local_(devices_of_process(program.options.num_devices, transport.process())) {
  for (int64_t p = 0; p < transport.count(); ++p)
    blocks_.push_back(devices_of_process(program.options.num_devices, p));
  const std::string text = to_text(*program.module);
  key_ = hash_of(text);
  check_same_program(transport, text, key_);
  const std::vector<int64_t> process_of = process_of_devices(program.options.num_devices);
  Planner planner(process_of, transport.process());
  for (const CollectiveStep& step : program.collectives) {
    chains_.emplace_back(step, process_of, transport.process());
    plans_.push_back(planner.plan(step, chains_.back().chained()));
    int64_t bytes = 0;
    places_.push_back(places_of(plans_.back(), step, bytes));
    room_bytes_ = std::max(room_bytes_, bytes);
  }
}

Remote::~Remote() {
  for (const Flight& flight : flights_) unmap_pages(flight.room, room_bytes_);
}

std::vector<Remote::Place> Remote::places_of(const Plan& plan, const CollectiveStep& step,
                                             int64_t& bytes) const {
  std::map<std::pair<int64_t, int64_t>, int64_t> offsets;
  for (const Transfer& transfer : plan.in) {
    const auto [at, is_new] = offsets.try_emplace({transfer.source, transfer.operand}, bytes);
    if (is_new) bytes += ceil_div(step.node->operand(transfer.operand)->shape.bytes(), 64) * 64;
  }
  std::vector<Place> places;
  for (const auto& [key, offset] : offsets) places.push_back({key.first, key.second, offset});
  return places;
}

void Remote::begin_run(int64_t run) {
  agree(transport_, key_ + static_cast<uint64_t>(run),
        fmt::format("runs the program \"{}\", run {}", program_.module->name, run + 1));
}

Remote::Flight& Remote::free_flight() {
  for (Flight& flight : flights_)
    if (flight.step == nullptr) return flight;
  Flight& flight = flights_.emplace_back();
  flight.number = std::ssize(flights_) - 1;
  flight.room = map_pages(room_bytes_);
  if (flight.room == nullptr && room_bytes_ > 0)
    execution_error("executor: no memory for {} bytes of other processes", room_bytes_);
  flight.packed.resize(static_cast<size_t>(2 * transport_.count()));
  return flight;
}

std::byte*& Remote::entry_of(const Flight& flight, int64_t device, int64_t operand) {
  return (*flight.tables)[static_cast<size_t>(device)]
                         [static_cast<size_t>(flight.step->first_argument + operand)];
}

void Remote::begin(const CollectiveStep& step, const std::vector<char>& active,
                   std::vector<std::vector<std::byte*>>& tables) {
  constexpr uint32_t kTags = 16000;  // more than are under way at any time
  const size_t index = index_of(step);
  const auto tag = static_cast<int>(2 * (begun_++ % kTags));
  Flight& flight = free_flight();
  flight.step = &step;
  flight.active = active;
  flight.tables = &tables;
  for (const Place& place : places_[index])
    entry_of(flight, place.device, place.operand) = flight.room + place.offset;
  std::vector<Parcel> out, in;
  pack(flight, out, in);
  flight.exchange.reset();
  if (!out.empty() || !in.empty()) flight.exchange = transport_.begin(out, in, tag + 2);
  chains_[index].begin(active, tables, transport_, tag + 1, flight.chunks, flight.number);
  chains_[index].progress(false, said(*step.node));
}

namespace {

// Rows without gaps that are large go as they lie; others share a message per process, the last to
// it.
template <class Transfer>
bool is_alone(const Transfer& t) {
  return t.whole() && t.bytes() >= kAlone;
}

}  // namespace

void Remote::pack(Flight& flight, std::vector<Parcel>& out, std::vector<Parcel>& in) const {
  const Plan& plan = plans_[index_of(*flight.step)];
  const auto count = static_cast<size_t>(transport_.count());
  const auto entry = [&](const Transfer& t) {
    return entry_of(flight, t.source, t.operand) + t.offset;
  };
  for (std::vector<std::byte>& message : flight.packed) message.clear();
  for (const Transfer& t : plan.out) {
    if (!flight.active[static_cast<size_t>(t.source)]) continue;
    std::byte* const from = entry(t);
    if (is_alone(t)) {
      out.push_back({t.to, {from, static_cast<size_t>(t.bytes())}});
      continue;
    }
    std::vector<std::byte>& message = flight.packed[static_cast<size_t>(t.to)];
    for (int64_t r = 0; r < t.rows; ++r)
      message.insert(message.end(), from + r * t.stride, from + r * t.stride + t.row);
  }
  for (const Transfer& t : plan.in) {
    if (!flight.active[static_cast<size_t>(t.source)]) continue;
    std::vector<std::byte>& message = flight.packed[count + static_cast<size_t>(t.from)];
    if (is_alone(t))
      in.push_back({t.from, {entry(t), static_cast<size_t>(t.bytes())}});
    else
      message.resize(message.size() + static_cast<size_t>(t.bytes()));
  }
  for (size_t p = 0; p < count; ++p) {
    const auto process = static_cast<int64_t>(p);
    if (!flight.packed[p].empty()) out.push_back({process, flight.packed[p]});
    if (!flight.packed[count + p].empty()) in.push_back({process, flight.packed[count + p]});
  }
}

void Remote::finish(const CollectiveStep& step) {
  const auto found = std::find_if(flights_.begin(), flights_.end(),
                                  [&](const Flight& flight) { return flight.step == &step; });
  Flight& flight = *found;
  const std::string what = said(*step.node);
  chains_[index_of(step)].progress(true, what);
  if (flight.exchange) transport_.finish(*flight.exchange, what);
  unpack(flight);
  flight.step = nullptr;
}

void Remote::progress() {
  for (const Flight& flight : flights_) {
    if (flight.step == nullptr) continue;
    chains_[index_of(*flight.step)].progress(false, "");
    if (flight.exchange) static_cast<void>(transport_.is_done(*flight.exchange));
  }
}

// Rows out of the messages to where they are read.
void Remote::unpack(const Flight& flight) {
  const size_t index = index_of(*flight.step);
  const auto count = static_cast<size_t>(transport_.count());
  std::vector<size_t> read(count, 0);
  for (const Transfer& t : plans_[index].in) {
    if (!flight.active[static_cast<size_t>(t.source)] || is_alone(t)) continue;
    size_t& at = read[static_cast<size_t>(t.from)];
    const std::vector<std::byte>& message = flight.packed[count + static_cast<size_t>(t.from)];
    std::byte* const to = entry_of(flight, t.source, t.operand) + t.offset;
    for (int64_t r = 0; r < t.rows; ++r, at += static_cast<size_t>(t.row))
      std::memcpy(to + r * t.stride, message.data() + at, static_cast<size_t>(t.row));
  }
}

int64_t Remote::bytes_across(const CollectiveStep& step, const std::vector<char>& active) const {
  int64_t bytes = 0;
  for (size_t g = 0; g < step.groups.size(); ++g)
    if (done(step)[g] != 0 && active[static_cast<size_t>(step.groups[g][0])] != 0)
      bytes += chains_[index_of(step)].bytes(g);
  for (const auto& [device, sent] : plans_[index_of(step)].across)
    if (active[static_cast<size_t>(device)] != 0) bytes += sent;
  return bytes;
}

const std::vector<char>& Remote::done(const CollectiveStep& step) const {
  return chains_[index_of(step)].chained();
}

void Remote::share(std::vector<int32_t>& values, const Node& node) {
  std::vector<Parcel> out, in;
  const auto block = [&](const DeviceRange& range) {
    return std::as_writable_bytes(std::span(values).subspan(static_cast<size_t>(range.first),
                                                            static_cast<size_t>(range.count())));
  };
  for (int64_t p = 0; p < transport_.count(); ++p) {
    if (p == transport_.process()) continue;
    out.push_back({p, block(local_)});
    in.push_back({p, block(blocks_[static_cast<size_t>(p)])});
  }
  transport_.exchange(out, in, said(node));
}

std::vector<std::vector<std::byte>> Remote::digests(
    std::span<const std::span<const std::byte>> values, const Node& node) {
  XXH3_state_t* const state = XXH3_createState();
  XXH3_128bits_reset(state);
  for (const std::span<const std::byte> value : values)
    XXH3_128bits_update(state, value.data(), value.size());
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(state));
  XXH3_freeState(state);
  return gather_equal(transport_, std::as_bytes(std::span(digest.digest)), said(node));
}

}  // namespace gspmd
