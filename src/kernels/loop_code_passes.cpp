#include "kernels/loop_code_passes.h"

#include <algorithm>

namespace gspmd {
namespace {

constexpr int kCheapOps = 6;  // so many are done again rather than kept in a tile

bool is_costly(LoopOp op) {
  switch (op) {
    case LoopOp::exp:
    case LoopOp::expm1:
    case LoopOp::log:
    case LoopOp::log1p:
    case LoopOp::tanh:
    case LoopOp::erf:
    case LoopOp::logistic:
    case LoopOp::sqrt:
    case LoopOp::rsqrt:
    case LoopOp::divide:
      return true;
    default:
      return false;
  }
}

class Scheduler {
 public:
  Scheduler(const LoopPlan& plan, const std::vector<LoopInstruction>& list,
            const std::vector<LoopRegister>& registers, const std::vector<bool>& outside)
      : plan_(plan), list_(list), registers_(registers), outside_(outside) {}

  std::optional<LoopSchedule> run() {
    const size_t count = registers_.size();
    definition_.assign(count, nullptr);
    available_.assign(count, 0);
    interpreted_.assign(count, false);
    for (const LoopInstruction& in : list_)
      if (!place(in)) return std::nullopt;
    for (bool again = true; again;) {
      again = false;
      demand_all();
      for (Store& s : stores_) {
        if (s.pass >= last_ || !overwrites_what_is_read(s)) continue;
        s.pass = last_;
        again = true;
      }
    }
    collect();
    return std::move(result_);
  }

 private:
  struct Store {
    const LoopInstruction* in;
    int pass;
  };
  const LoopRegister& reg(int v) const { return registers_[static_cast<size_t>(v)]; }
  int& available(int v) { return available_[static_cast<size_t>(v)]; }
  static std::vector<int> inputs(const LoopInstruction& in) {
    std::vector<int> result;
    for (const int v : {in.a, in.b, in.c})
      if (v >= 0) result.push_back(v);
    return result;
  }
  int latest(const LoopInstruction& in) {
    int at = 0;
    for (const int v : inputs(in)) at = std::max(at, available(v));
    return at;
  }

  // The pass of an instruction; last_ is the last of all.
  bool place(const LoopInstruction& in) {
    if (in.kind == LoopInstruction::store) {
      const bool one = plan_.streams[static_cast<size_t>(in.out)].inner == 0;
      if (one && reg(in.a).wide) return false;
      stores_.push_back({&in, available(in.a)});
      last_ = std::max(last_, available(in.a));
      if (!has_code(in)) needs_memory_.push_back(in.a);
      if (in.c >= 0) {
        last_ = std::max(last_, available(in.c));
        needs_memory_.push_back(in.c);
      }
      return true;
    }
    const int out = in.kind == LoopInstruction::load
                        ? plan_.streams[static_cast<size_t>(in.out)].value
                        : in.out;
    definition_[static_cast<size_t>(out)] = &in;
    if (in.kind == LoopInstruction::load) return true;
    const int at = latest(in);
    const bool narrow_fold = in.kind == LoopInstruction::fold && !reg(in.a).wide;
    if (has_code(in)) {
      available(out) = in.kind == LoopInstruction::fold ? at + 1 : at;
    } else {
      if (narrow_fold) return false;
      interpreted_[static_cast<size_t>(out)] = true;
      available(out) = at + 1;
      for (const int v : inputs(in)) needs_memory_.push_back(v);
    }
    last_ = std::max(last_, available(out));
    return true;
  }

  bool is_lanes(int v) const {  // an iota that is computed
    const LoopInstruction* in = definition_[static_cast<size_t>(v)];
    return in != nullptr && is_lane_iota(plan_, *in);
  }
  // Whether a vector of it is computed by code, not found in memory, at that pass.
  bool is_computed_at(int v, int pass) {
    const LoopRegister& r = reg(v);
    if (!r.wide || r.kind != LoopRegister::computed) return false;
    const LoopInstruction* in = definition_[static_cast<size_t>(v)];
    if (in == nullptr || interpreted_[static_cast<size_t>(v)]) return false;
    if (in->kind == LoopInstruction::load) return is_lanes(v);
    if (in->kind == LoopInstruction::accumulate) return available(v) == pass;
    return true;
  }
  int ops_of(int v, int pass, int budget) {
    if (!is_computed_at(v, pass)) return 0;
    if (is_lanes(v)) return 1;
    const LoopInstruction& in = *definition_[static_cast<size_t>(v)];
    if (is_costly(in.op)) return budget + 1;
    int ops = 1;
    for (const int input : inputs(in)) {
      if (kept(input) && available(input) < pass) continue;
      ops += ops_of(input, pass, budget - ops);
      if (ops > budget) break;
    }
    return ops;
  }
  bool kept(int v) const { return result_.kept[static_cast<size_t>(v)]; }

  void read(int v, int pass) {
    int& last = last_read_[static_cast<size_t>(v)];
    last = std::max(last, pass);
  }
  void demand(int v, int pass) {
    if (!is_computed_at(v, pass)) return read(v, pass);
    if (in_pass(v, pass)) return;
    const bool earlier = available(v) < pass;
    if (earlier && (kept(v) || ops_of(v, pass, kCheapOps) > kCheapOps)) return keep(v);
    passes_[static_cast<size_t>(pass)][static_cast<size_t>(v)] = true;
    if (is_lanes(v)) return;
    for (const int input : inputs(*definition_[static_cast<size_t>(v)]))
      if (reg(input).wide) demand(input, pass);
  }
  bool in_pass(int v, int pass) const {
    return passes_[static_cast<size_t>(pass)][static_cast<size_t>(v)];
  }
  void keep(int v) {
    if (kept(v)) return;
    result_.kept[static_cast<size_t>(v)] = true;
    if (is_computed_at(v, available(v))) demand(v, available(v));
  }

  void demand_all() {
    const size_t count = registers_.size();
    result_.kept.assign(count, false);
    last_read_.assign(count, -1);
    passes_.assign(static_cast<size_t>(last_) + 1, std::vector<bool>(count, false));
    for (const int v : needs_memory_)
      if (reg(v).kind == LoopRegister::computed) keep(v);
    for (size_t v = 0; v < count; ++v)
      if (outside_[v] && definition_[v] != nullptr) keep(static_cast<int>(v));
    for (const LoopInstruction& in : list_) {
      if (in.kind == LoopInstruction::load || in.kind == LoopInstruction::store) continue;
      if (!has_code(in)) {
        for (const int v : inputs(in)) read(v, available(in.out));
      } else if (in.kind != LoopInstruction::compute) {
        if (reg(in.a).wide) demand(in.a, available(in.a));
        if (in.kind == LoopInstruction::accumulate) demand(in.out, available(in.out));
      }
    }
    for (const Store& s : stores_)
      if (has_code(*s.in) && reg(s.in->a).wide) demand(s.in->a, s.pass);
  }

  // A result may lie in the place of an operand that is read elementwise.
  bool overwrites_what_is_read(const Store& s) const {
    if (plan_.streams[static_cast<size_t>(s.in->out)].inner == 0) return false;
    const int64_t size = plan_.streams[static_cast<size_t>(s.in->out)].element_size;
    for (const LoopStream& stream : plan_.streams) {
      if (stream.kind != LoopStream::operand || stream.access != LoopStream::direct) continue;
      if (stream.value < 0 || stream.element_size != size || stream.inner == 0) continue;
      if (last_read_[static_cast<size_t>(stream.value)] > s.pass) return true;
    }
    return false;
  }

  void collect() {
    result_.sections.resize(static_cast<size_t>(last_) + 2);
    const auto section = [&](int at) -> LoopSection& {
      return result_.sections[static_cast<size_t>(at)];
    };
    for (const LoopInstruction& in : list_) {
      if (in.kind == LoopInstruction::load) {
        result_.loads.push_back(&in);
      } else if (in.kind == LoopInstruction::compute && has_code(in) && !in.wide) {
        section(available(in.out)).narrow.push_back({LoopItem::compute, in.out, &in});
      } else if (in.kind != LoopInstruction::store && !has_code(in)) {
        section(available(in.out)).interpreted.push_back(&in);
      } else if (in.kind == LoopInstruction::fold) {
        section(available(in.out) - 1).pass.push_back({LoopItem::fold, in.out, &in});
      }
    }
    for (int p = 0; p <= last_; ++p) collect_pass(p, section(p).pass);
    LoopSection& end = section(last_ + 1);
    for (const Store& s : stores_) {
      const bool wide = reg(s.in->a).wide;
      const bool one = plan_.streams[static_cast<size_t>(s.in->out)].inner == 0;
      if (!has_code(*s.in))
        end.interpreted.push_back(s.in);
      else if (wide || !one)
        section(wide ? s.pass : last_).pass.push_back({LoopItem::store, s.in->a, s.in});
      else
        end.narrow.push_back({LoopItem::store, s.in->a, s.in});
    }
    for (LoopSection& s : result_.sections) {
      std::stable_sort(s.pass.begin(), s.pass.end(),
                       [](const LoopItem& a, const LoopItem& b) { return a.value < b.value; });
    }
  }

  // What is computed and kept in a pass; a store comes right behind what it stores.
  void collect_pass(int p, std::vector<LoopItem>& items) {
    for (size_t v = 0; v < registers_.size(); ++v) {
      const int value = static_cast<int>(v);
      if (!in_pass(value, p)) continue;
      const LoopInstruction* in = definition_[v];
      const auto kind = in->kind == LoopInstruction::load         ? LoopItem::iota
                        : in->kind == LoopInstruction::accumulate ? LoopItem::accumulate
                                                                  : LoopItem::compute;
      items.push_back({kind, value, in});
      if (kept(value) && available(value) == p && kind != LoopItem::accumulate)
        items.push_back({LoopItem::keep, value, nullptr});
    }
  }

  const LoopPlan& plan_;
  const std::vector<LoopInstruction>& list_;
  const std::vector<LoopRegister>& registers_;
  const std::vector<bool>& outside_;
  std::vector<const LoopInstruction*> definition_;  // of registers
  std::vector<int> available_;     // the pass in which a register can be read first
  std::vector<bool> interpreted_;  // registers computed between passes
  std::vector<int> needs_memory_, last_read_;
  std::vector<Store> stores_;
  std::vector<std::vector<bool>> passes_;  // [pass][register]: computed there
  int last_ = 0;
  LoopSchedule result_;
};

}  // namespace

bool is_lane_iota(const LoopPlan& plan, const LoopInstruction& in) {
  if (in.kind != LoopInstruction::load || !in.wide || plan.flat || plan.by_rows) return false;
  const LoopStream& s = plan.streams[static_cast<size_t>(in.out)];
  return s.kind == LoopStream::iota && s.inner == 1 && s.dtype == DType::s32;
}

std::optional<LoopSchedule> schedule_passes(const LoopPlan& plan,
                                            const std::vector<LoopInstruction>& list,
                                            const std::vector<LoopRegister>& registers,
                                            const std::vector<bool>& outside) {
  return Scheduler(plan, list, registers, outside).run();
}

}  // namespace gspmd
