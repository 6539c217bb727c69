#include "gspmd/kernels/loop_program.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/loop_code.h"
#include "kernels/loop_plan.h"
#include "kernels/loop_widen.h"

namespace gspmd {
namespace {

constexpr int64_t kRegisterBytes = 4096;  // of a register: a dozen fit the first-level cache
constexpr int64_t kLongestRow = 16384;    // elements of a row kept whole
constexpr int64_t kFlatBelow = 192;       // inner dims shorter than this are flattened
constexpr int64_t kLeastRowColumns = 4;   // of inner dims that code goes through row by row
constexpr int64_t kFewKeptRows = 4;       // fewer are not parts enough for two workers
constexpr int64_t kLeastBlocks = 4;       // of reduced rows that are

bool is_reduce(LoopOp op) { return op >= LoopOp::reduce_sum; }
bool is_stream(LoopOp op) { return op == LoopOp::operand || op == LoopOp::iota; }

class Builder {
 public:
  // `target`: of machine code, nullptr for the interpreter.
  Builder(const LoopProgram& program, const LoopCodeTarget* target, bool by_rows)
      : p_(program), target_(target), code_(target != nullptr), may_go_by_rows_(by_rows) {}

  // False where the program cannot be run in this form.
  bool build() {
    if (!computable()) return false;
    normalize();
    choose_loops();
    if (!level()) return false;
    add_streams();
    if (!add_instructions()) return false;
    add_outputs();
    add_pointers();
    estimate_cost();
    if (code_ && !make_code()) return false;
    code_ ? assign_code_slots() : assign_slots();
    if (plan_.by_rows) add_row_steps();
    plan_.parts = loop_parts(elements_, plan_.units());
    return true;
  }

  LoopPlan plan_;
  int64_t elements_ = 1;
  double cost_per_element_ = 0;  // rough nanoseconds, for deciding about splitting

 private:
  struct Facts {
    Dims strides;  // of streams, over dims_
    bool wide = false, uniform = true, varies_reduced = false;
    int phase = 0;  // 1: after the reduced loops
    bool needed = false;
    int64_t element_size = 4;
    int stream = -1;
    bool computed = false;  // by a compute instruction
    bool directed = false;  // written straight into an output
  };
  Facts& facts(int value) { return facts_[static_cast<size_t>(value)]; }
  const LoopValue& value(int v) const { return p_.values[static_cast<size_t>(v)]; }
  int count() const { return static_cast<int>(p_.values.size()); }
  static std::array<int, 3> inputs(const LoopValue& v) { return {v.a, v.b, v.c}; }

  bool computable() {
    for (const int64_t size : p_.dims) elements_ = saturating_multiply(elements_, size);
    if (elements_ == 0) return false;
    facts_.resize(p_.values.size());
    for (int v = 0; v < count(); ++v) {
      if (!is_loop_dtype(value(v).dtype)) return false;
      facts(v).element_size = dtype_size(value(v).dtype);
    }
    for (const LoopOutput& output : p_.outputs) facts(output.value).needed = true;
    for (int v = count(); v-- > 0;) {
      if (!facts(v).needed) continue;
      for (const int input : inputs(value(v))) {
        if (input >= 0) facts(input).needed = true;
      }
      has_reduce_ |= is_reduce(value(v).op);
    }
    return true;
  }

  // Dims of size 1 dropped, neighbours merged where every stream walks both with one stride.
  void normalize() {
    piece_strides_.resize(p_.outputs.size());
    for (size_t d = 0; d < p_.dims.size(); ++d) {
      if (p_.dims[d] == 1) continue;
      dims_.push_back(p_.dims[d]);
      reduced_.push_back(has_reduce_ && !p_.reduced.empty() && p_.reduced[d]);
      for (int v = 0; v < count(); ++v) {
        const LoopValue& x = value(v);
        if (is_stream(x.op) && !x.strides.empty())
          facts(v).strides.push_back(x.strides[d]);
        else if (x.op == LoopOp::iota)
          facts(v).strides.push_back(x.operand == static_cast<int64_t>(d));
      }
      for (size_t o = 0; o < p_.outputs.size(); ++o)
        if (is_piece(o)) piece_strides_[o].push_back(p_.outputs[o].strides[d]);
    }
    for (size_t d = dims_.size(); d-- > 1;) {
      bool mergeable = reduced_[d] == reduced_[d - 1];
      for (int v = 0; v < count() && mergeable; ++v) {
        if (!is_stream(value(v).op) || !facts(v).needed) continue;
        const Dims& s = facts(v).strides;
        mergeable = s[d - 1] == s[d] * dims_[d];
      }
      for (size_t o = 0; o < p_.outputs.size() && mergeable; ++o) {
        const Dims& s = piece_strides_[o];
        mergeable = !is_piece(o) || s[d - 1] == s[d] * dims_[d];
      }
      if (!mergeable) continue;
      const auto at = static_cast<std::ptrdiff_t>(d);
      dims_[d - 1] *= dims_[d];
      dims_.erase(dims_.begin() + at);
      reduced_.erase(reduced_.begin() + at);
      for (int v = 0; v < count(); ++v) {
        if (is_stream(value(v).op)) facts(v).strides.erase(facts(v).strides.begin() + at - 1);
      }
      for (size_t o = 0; o < p_.outputs.size(); ++o)
        if (is_piece(o)) piece_strides_[o].erase(piece_strides_[o].begin() + at - 1);
    }
    if (!dims_.empty()) return;
    dims_ = {1};
    reduced_ = {false};
    for (int v = 0; v < count(); ++v) {
      if (is_stream(value(v).op)) facts(v).strides = {0};
    }
    for (Dims& strides : piece_strides_) strides = {1};
  }

  bool is_piece(size_t output) const { return !p_.outputs[output].strides.empty(); }

  void choose_loops() {
    plan_.inner_reduced = reduced_.back();
    const bool is_short = !has_reduce_ && dims_.size() > 1 && dims_.back() < kFlatBelow;
    plan_.by_rows = is_short && code_ && may_go_by_rows_ && dims_.back() >= kLeastRowColumns;
    plan_.flat = is_short && !plan_.by_rows;
    if (plan_.flat) {
      plan_.flat_dims = dims_;
      plan_.inner = elements_;
      return;
    }
    plan_.inner = dims_.back();
    if (plan_.by_rows) plan_.rows = dims_[dims_.size() - 2];
    for (size_t d = 0; d < outer_dims(); ++d) {
      (reduced_[d] ? plan_.reduced : plan_.kept).push_back(dims_[d]);
      (reduced_[d] ? plan_.reduced_count : plan_.kept_count) *= dims_[d];
    }
  }

  // Dims that neither code nor the functions of a tile go through.
  size_t outer_dims() const { return dims_.size() - (plan_.by_rows ? 2 : 1); }

  bool level() {
    int64_t widest = 1;
    bool whole_row = false;
    for (int v = 0; v < count(); ++v) {
      Facts& f = facts(v);
      if (!f.needed) continue;
      const LoopValue& x = value(v);
      if (is_stream(x.op)) {
        for (size_t d = 0; d < dims_.size(); ++d) {
          if (f.strides[d] == 0) continue;
          f.uniform = false;
          f.varies_reduced |= reduced_[d];
          f.wide |= plan_.flat || d + 1 == dims_.size();
        }
      } else if (is_reduce(x.op)) {
        f.uniform = false;
        f.wide = !plan_.inner_reduced;
        f.phase = 1;
        whole_row |= facts(x.a).phase == 1;
        if (!facts(x.b).uniform) return false;
      } else {
        for (const int input : inputs(x)) {
          if (input < 0) continue;
          f.uniform &= facts(input).uniform;
          f.wide |= facts(input).wide;
          f.varies_reduced |= facts(input).varies_reduced;
          f.phase = std::max(f.phase, facts(input).phase);
        }
        whole_row |= f.phase == 1 && f.varies_reduced;
      }
      if (f.wide) widest = std::max(widest, f.element_size);
    }
    for (const LoopOutput& o : p_.outputs)
      whole_row |= has_reduce_ && !o.reduced && facts(o.value).phase == 1;
    return choose_tile(widest, whole_row);
  }

  bool choose_tile(int64_t widest, bool whole_row) {
    int64_t limit = kRegisterBytes / widest;
    if (whole_row && plan_.inner_reduced) limit = kLongestRow;
    if (has_reduce_ && !plan_.inner_reduced && plan_.kept_count < kFewKeptRows &&
        elements_ >= 2 * kLoopPartElements) {
      if (plan_.reduced_count > (kLeastBlocks - 1) * kSumBlock && joins_blocks(p_))
        plan_.blocks = ceil_div(plan_.reduced_count, kSumBlock);
      else
        limit = std::clamp<int64_t>(ceil_div(plan_.inner, code_ ? 32 : 64) * 16, 64, limit);
    }
    if (plan_.by_rows) {
      plan_.tiles = ceil_div(plan_.rows, std::max<int64_t>(limit / plan_.inner, 1));
      plan_.tile = ceil_div(plan_.rows, plan_.tiles);
      plan_.tiles = ceil_div(plan_.rows, plan_.tile);
      return true;
    }
    plan_.tiles = ceil_div(plan_.inner, limit);
    plan_.tile = std::min(plan_.inner, ceil_div(ceil_div(plan_.inner, plan_.tiles), 16) * 16);
    plan_.tiles = ceil_div(plan_.inner, plan_.tile);
    // With one step of the reduced loops everything is one straight list.
    const bool straight = plan_.reduced_count == 1 && (!plan_.inner_reduced || plan_.tiles == 1);
    if (straight) {
      for (Facts& f : facts_) f.phase = 0;
    }
    return straight || !whole_row;
  }

  void split_strides(LoopStream& stream, const Dims& strides) {
    if (plan_.flat) {
      stream.kept = strides;
      return;
    }
    stream.inner = strides.back();
    if (plan_.by_rows) stream.row = strides[strides.size() - 2];
    for (size_t d = 0; d < outer_dims(); ++d) {
      (reduced_[d] ? stream.reduced : stream.kept).push_back(strides[d]);
    }
  }

  void add_streams() {
    const Dims dense = row_major_strides(dims_);
    for (int v = 0; v < count(); ++v) {
      const LoopValue& x = value(v);
      Facts& f = facts(v);
      if (!f.needed || !is_stream(x.op)) continue;
      LoopStream s;
      s.value = v;
      s.index = x.operand;
      s.offset = x.offset;
      s.kind = x.op == LoopOp::iota ? LoopStream::iota : LoopStream::operand;
      s.element_size = f.element_size;
      s.dtype = x.dtype;
      split_strides(s, f.strides);
      if (plan_.flat && !f.uniform && f.strides == dense) {
        s.kept.clear();
        s.inner = 1;
      }
      const bool strided =
          plan_.flat ? !f.uniform && !(f.strides == dense) : s.inner != 0 && s.inner != 1;
      s.access = s.kind == LoopStream::iota || strided ? LoopStream::gather : LoopStream::direct;
      f.stream = static_cast<int>(plan_.streams.size());
      plan_.streams.push_back(std::move(s));
    }
  }

  std::vector<LoopInstruction>& list_for(const Facts& f) {
    if (f.uniform) return plan_.prologue;
    return f.phase == 0 ? plan_.body : plan_.post;
  }

  bool add_instructions() {
    plan_.registers = count();
    for (int v = 0; v < count(); ++v) {
      Facts& f = facts(v);
      if (!f.needed) continue;
      const LoopValue& x = value(v);
      if (x.op == LoopOp::constant) {
        plan_.constants.emplace_back(v, x.constant);
      } else if (is_stream(x.op)) {
        if (plan_.streams[static_cast<size_t>(f.stream)].access == LoopStream::direct) continue;
        LoopInstruction in;
        in.kind = LoopInstruction::load;
        in.out = f.stream;
        in.wide = f.wide;
        list_for(f).push_back(in);
      } else if (is_reduce(x.op)) {
        if (!add_fold(v)) return false;
      } else if (!add_compute(v)) {
        return false;
      }
    }
    return true;
  }

  bool add_compute(int v) {
    const LoopValue& x = value(v);
    Facts& f = facts(v);
    const int typed = x.op == LoopOp::select ? x.b : x.a;
    LoopInstruction in;
    in.op = x.op;
    in.input = value(typed).dtype;
    in.result = x.dtype;
    in.function = find_loop_function(x.op, in.input, x.dtype);
    if (in.function == nullptr) return false;
    in.out = v;
    in.a = x.a;
    in.b = x.b;
    in.c = x.c;
    in.wide = f.wide;
    uint32_t bit = 1;
    for (const int input : inputs(x)) {
      if (f.wide && input >= 0 && !facts(input).wide) in.scalars |= bit;
      bit <<= 1;
    }
    f.computed = true;
    list_for(f).push_back(in);
    return true;
  }

  bool add_fold(int v) {
    const LoopValue& x = value(v);
    const DType dtype = value(x.a).dtype;
    LoopInstruction in;
    in.op = x.op;
    in.input = in.result = dtype;
    in.combine = find_loop_function(combining_op(x.op), dtype, dtype);
    in.out = v;
    in.a = x.a;
    std::vector<LoopInstruction>& list = facts(x.a).phase == 0 ? plan_.body : plan_.post;
    if (plan_.inner_reduced) {
      in.kind = LoopInstruction::fold;
      in.function = find_loop_function(x.op, dtype, dtype);
      if (!facts(x.a).wide && !code_) in.a = add_spread(x.a, list);
    } else {
      in.kind = LoopInstruction::accumulate;
      if (!facts(x.a).wide) in.scalars = 2;
    }
    if (in.combine == nullptr || (plan_.inner_reduced && in.function == nullptr)) return false;
    list.push_back(in);
    LoopPlan::Fold fold{v, x.b, facts(v).element_size, in.combine};
    if (x.op == LoopOp::reduce_sum && is_floating(dtype)) {
      int64_t steps = plan_.reduced_count * (plan_.inner_reduced ? plan_.tiles : 1);
      for (; steps > kSumBlock; steps /= kSumBlock) ++fold.levels;
    }
    plan_.folds.push_back(fold);
    return true;
  }

  // A register of the whole tile filled with a value that does not vary along it.
  int add_spread(int v, std::vector<LoopInstruction>& list) {
    LoopInstruction in;
    in.function = spread_function(facts(v).element_size);
    in.out = static_cast<int>(plan_.registers++);
    in.a = v;
    list.push_back(in);
    return in.out;
  }

  void add_outputs() {
    Dims kept_dims;
    for (size_t d = 0; d < dims_.size(); ++d) kept_dims.push_back(reduced_[d] ? 1 : dims_[d]);
    std::vector<bool> paired(p_.outputs.size(), false);
    for (size_t o = 0; o < p_.outputs.size(); ++o) {
      if (paired[o]) continue;
      const LoopOutput& output = p_.outputs[o];
      Facts& f = facts(output.value);
      const Dims dense = row_major_strides(output.reduced ? kept_dims : dims_);
      Dims strides = is_piece(o) ? piece_strides_[o] : dense;
      for (size_t d = 0; d < dims_.size(); ++d) {
        if (output.reduced && reduced_[d]) strides[d] = 0;
      }
      LoopStream s;
      s.index = output.result >= 0 ? output.result : static_cast<int64_t>(o);
      s.kind = LoopStream::output;
      s.element_size = f.element_size;
      s.dtype = value(output.value).dtype;
      s.offset = output.offset;
      if (plan_.flat && strides == dense) {
        s.inner = 1;
      } else {
        split_strides(s, strides);
        if (plan_.flat || (s.inner != 0 && s.inner != 1)) s.access = LoopStream::gather;
      }
      const bool per_tile = f.phase == 1 || !output.reduced || plan_.reduced_count == 1;
      if (!code_ && f.computed && f.wide && !f.directed && per_tile && s.inner == 1 &&
          s.access == LoopStream::direct) {
        s.value = output.value;
        s.access = LoopStream::direct;
        f.directed = true;
      } else {
        add_store(output.value, s);
        if (const size_t other = other_half(p_, o); other > o && s.inner == 2 && !plan_.flat) {
          paired[other] = true;
          pair_store(output, p_.outputs[other], s);
        }
      }
      plan_.streams.push_back(std::move(s));
    }
  }

  // The store of one becomes that of both.
  void pair_store(const LoopOutput& one, const LoopOutput& other, LoopStream& s) {
    LoopInstruction& in = (facts(one.value).phase == 0 ? plan_.body : plan_.post).back();
    in.c = other.value;
    in.scalars |= facts(other.value).wide ? 0 : 2;
    if (other.offset > one.offset) return;
    std::swap(in.a, in.c);
    in.scalars = in.scalars >> 1 | (in.scalars & 1) << 1;
    s.offset = other.offset;
  }

  void add_pointers() {
    for (size_t i = 0; i < plan_.streams.size(); ++i) {
      const LoopStream& s = plan_.streams[i];
      if (s.access != LoopStream::direct || s.value < 0) continue;
      const auto stream = static_cast<int>(i);
      if (s.kind == LoopStream::operand && facts(s.value).uniform) {
        plan_.fixed.emplace_back(s.value, stream);
      } else {
        add_pointer(s.value, stream, s);
      }
    }
  }

  void add_pointer(int v, int stream, const LoopStream& s) {
    const int64_t step = plan_.by_rows ? s.row : s.inner;
    plan_.pointers.push_back({v, stream, s.element_size, step * s.element_size});
  }

  void add_store(int v, const LoopStream& s) {
    LoopInstruction in;
    in.kind = LoopInstruction::store;
    in.out = static_cast<int>(plan_.streams.size());
    in.a = v;
    in.result = s.dtype;
    const bool is_scattered = s.access == LoopStream::gather;
    in.scalars = (is_scattered || s.inner != 0) && !facts(v).wide ? 1 : 0;
    if (code_ && !is_scattered) {
      in.b = static_cast<int>(plan_.registers++);
      add_pointer(in.b, in.out, s);
    }
    (facts(v).phase == 0 ? plan_.body : plan_.post).push_back(in);
  }

  void estimate_cost() {
    cost_per_element_ = 0.05 * static_cast<double>(plan_.streams.size());
    for (const LoopInstruction& in : plan_.body) cost_per_element_ += in.wide ? 0.05 : 0.0;
  }

  std::vector<LoopRegister> code_registers() const {
    std::vector<LoopRegister> registers(static_cast<size_t>(plan_.registers));
    for (int v = 0; v < count(); ++v) {
      LoopRegister& r = registers[static_cast<size_t>(v)];
      const Facts& f = facts_[static_cast<size_t>(v)];
      r.dtype = value(v).dtype;
      r.wide = f.wide;
      if (is_stream(value(v).op) || f.uniform) r.kind = LoopRegister::memory;
      if (value(v).op != LoopOp::constant || f.element_size == 8) continue;
      r.kind = LoopRegister::constant;
      if (r.dtype == DType::pred)
        r.bits = value(v).constant.at(0) != 0 ? ~0u : 0u;
      else
        std::memcpy(&r.bits, value(v).constant.bytes().data(), static_cast<size_t>(f.element_size));
    }
    return registers;
  }

  bool make_code() { return add_loop_code(*target_, plan_, code_registers(), kept_); }

  // Elements of a tile in memory.
  int64_t tile_elements(int v) {
    if (plan_.by_rows) return plan_.tile * (facts(v).wide ? plan_.inner : 1);
    return facts(v).wide ? plan_.tile : 1;
  }

  // In the order in which code moves the registers.
  void add_row_steps() {
    for (LoopPlan::RowStep& step : plan_.row_steps) {
      const auto is_of = [&](const LoopPlan::Pointer& p) { return p.value == step.value; };
      const auto pointer = std::find_if(plan_.pointers.begin(), plan_.pointers.end(), is_of);
      step.bytes = pointer != plan_.pointers.end() ? pointer->inner_bytes
                                                   : facts(step.value).element_size *
                                                         (facts(step.value).wide ? plan_.inner : 1);
    }
  }

  // A slot each: few values are kept.
  void assign_code_slots() {
    for (const LoopInstruction& in : plan_.prologue)
      plan_.slots.push_back({plan_.register_of(in), plan_.new_slot(8)});
    add_fold_slots();
    std::vector<bool> has_slot(static_cast<size_t>(plan_.registers), false);
    const auto give = [&](int v) {
      if (has_slot[static_cast<size_t>(v)]) return;
      has_slot[static_cast<size_t>(v)] = true;
      plan_.slots.push_back({v, plan_.new_slot(tile_elements(v) * facts(v).element_size)});
    };
    for (const LoopPlan::Fold& fold : plan_.folds) has_slot[static_cast<size_t>(fold.value)] = true;
    for (const auto* list : {&plan_.body, &plan_.post})
      for (const LoopInstruction& in : *list)
        if (in.kind == LoopInstruction::compute || in.kind == LoopInstruction::load)
          give(plan_.register_of(in));
    for (int v = 0; v < count(); ++v)
      if (kept_[static_cast<size_t>(v)]) give(v);
  }

  void add_fold_slots() {
    for (LoopPlan::Fold& fold : plan_.folds) {
      const int64_t bytes = plan_.inner_reduced ? 8 : plan_.tile * fold.element_size;
      // Code reads and writes whole vectors of it.
      fold.level_bytes = ceil_div(bytes, 64) * 64;
      plan_.slots.push_back({fold.value, plan_.new_slot(fold.level_bytes * fold.levels)});
      fold.shared_offset = plan_.shared_bytes;
      plan_.shared_bytes += plan_.block_units() * fold.level_bytes;
    }
  }

  // Single elements and accumulators keep a slot of their own; tiles share by lifetime. An output
  // of an instruction never shares with its inputs, whose elements may be of another size.
  void assign_slots() {
    std::vector<int> last_use(static_cast<size_t>(plan_.registers), -1);
    int at = 0;
    const auto each = [&](auto&& visit) {
      at = 0;
      for (const auto* list : {&plan_.body, &plan_.post}) {
        for (const LoopInstruction& in : *list) visit(in), ++at;
      }
    };
    each([&](const LoopInstruction& in) {
      for (const int input : {in.a, in.b, in.c}) {
        if (input >= 0) last_use[static_cast<size_t>(input)] = at;
      }
    });
    for (const LoopInstruction& in : plan_.prologue) {
      plan_.slots.push_back({plan_.register_of(in), plan_.new_slot(8)});
    }
    const int64_t tile_bytes = plan_.tile * 8;
    add_fold_slots();
    std::vector<std::pair<int, int64_t>> live;  // last use, offset
    std::vector<int64_t> free;
    each([&](const LoopInstruction& in) {
      std::erase_if(live, [&](const auto& entry) {
        if (entry.first < at) free.push_back(entry.second);
        return entry.first < at;
      });
      if (in.kind != LoopInstruction::compute && in.kind != LoopInstruction::load) return;
      const int v = plan_.register_of(in);
      if (v < count() && facts(v).directed) return;
      if (!in.wide) {
        plan_.slots.push_back({v, plan_.new_slot(8)});
        return;
      }
      int64_t offset = 0;
      if (free.empty()) {
        offset = plan_.new_slot(std::min(tile_bytes, plan_.tile * widest_element()));
      } else {
        offset = free.back();
        free.pop_back();
      }
      plan_.slots.push_back({v, offset});
      live.emplace_back(std::max(last_use[static_cast<size_t>(v)], at), offset);
    });
  }

  int64_t widest_element() const {
    int64_t bytes = 1;
    for (const Facts& f : facts_) {
      if (f.needed) bytes = std::max(bytes, f.element_size);
    }
    return bytes;
  }

  const LoopProgram& p_;
  const LoopCodeTarget* const target_;
  const bool code_, may_go_by_rows_;
  std::vector<bool> kept_;  // by code, in memory
  std::vector<Facts> facts_;
  Dims dims_;
  std::vector<bool> reduced_;
  std::vector<Dims> piece_strides_;  // of outputs that are pieces, over dims_
  bool has_reduce_ = false;
};

}  // namespace

std::optional<PlannedLoop> plan_loop(const LoopProgram& given, const LoopCodeTarget* target) {
  const std::optional<LoopProgram> wide = widened(given);
  const LoopProgram& program = wide ? *wide : given;
  for (const bool by_rows : {true, false}) {
    Builder builder(program, target, by_rows);
    if (builder.build()) {
      const double cost = 50 + builder.cost_per_element_ * static_cast<double>(builder.elements_);
      return PlannedLoop{std::move(builder.plan_), cost, builder.elements_};
    }
    if (!builder.plan_.by_rows) break;
  }
  return std::nullopt;
}

}  // namespace gspmd
