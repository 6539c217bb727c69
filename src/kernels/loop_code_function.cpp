#include "kernels/loop_code_function.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/loop_code_block.h"

namespace gspmd {
namespace {

// At the end of the stack frame; before it single elements and spilled vectors.
constexpr int32_t kIotaBytes = 256, kFoldAndIotaBytes = 4096;
constexpr size_t kMostFolds = 12;
constexpr int kStreams = 4;        // most vectors whose instructions run in turn
constexpr int kSetOfElement = -1;  // of a fold's lanes those that element rcx goes to
constexpr std::array kPointerRegisters = {Gpr::rbx, Gpr::r8,  Gpr::r9,  Gpr::r10,
                                          Gpr::r11, Gpr::r12, Gpr::r13, Gpr::r14};
constexpr std::array kSaved = {Gpr::rbx, Gpr::r12, Gpr::r13, Gpr::r14, Gpr::r15};

class Writer {
 public:
  // `holds`: registers may hold the constants of rounding.
  Writer(const LoopCodeTarget& target, const std::vector<LoopRegister>& registers, int streams,
         bool holds)
      : target_(target),
        registers_(registers),
        streams_(streams),
        holds_(holds),
        code_(target.form),
        block_(target, code_, registers, frame_, pointers_) {}

  // The place where the function starts.
  size_t write(const CodeFunction& function) {
    const auto& [schedule_at, begin, end, plan] = function;
    const LoopSchedule& schedule = *schedule_at;
    while (code_.size() % 16 != 0) code_.return_();
    const size_t start = code_.size();
    lay_out_frame(schedule, begin, end);
    code_.push(Gpr::rbp);
    for (const Gpr r : kSaved) code_.push(r);
    code_.move(Gpr::rbp, Gpr::rsp);
    code_.add(Gpr::rsp, -target_.frame_bytes);
    code_.align_stack();
    if (target_.has_masks) {
      code_.move_constant(Gpr::rdx, static_cast<int32_t>(0xaaaaaaaau));
      code_.word_mask_from(BlockEmitter::upper_halves().id, Gpr::rdx);
    }
    const auto row = code_.new_label();
    code_.bind(row);
    for (const int v : imported_) import(v);
    for (size_t s = begin; s < end; ++s) {
      narrow(schedule.sections[s].narrow, schedule.kept);
      pass(schedule.sections[s].pass);
    }
    if (plan->by_rows) next_row(plan->row_steps, row);
    code_.move(Gpr::rsp, Gpr::rbp);
    for (size_t i = kSaved.size(); i-- > 0;) code_.pop(kSaved[i]);
    code_.pop(Gpr::rbp);
    code_.zero_upper();
    code_.return_();
    return start;
  }
  bool failed() const { return failed_ || block_.failed(); }
  std::vector<uint8_t> finish() { return code_.finish(); }

 private:
  const LoopRegister& reg(int v) const { return registers_[static_cast<size_t>(v)]; }
  static MemoryOperand at(Gpr base, int32_t disp) {
    MemoryOperand m;
    m.base = base;
    m.disp = disp;
    return m;
  }

  // A place in the frame for each single element that is read or made, `imported_` those that
  // stand in memory before.
  void lay_out_frame(const LoopSchedule& schedule, size_t begin, size_t end) {
    frame_.single.assign(registers_.size(), -1);
    imported_.clear();
    std::vector<bool> made(registers_.size(), false);
    int32_t top = 0;
    const auto give_place = [&](int v) {
      if (v < 0 || frame_.single[static_cast<size_t>(v)] >= 0) return;
      frame_.single[static_cast<size_t>(v)] = top;
      top += target_.single_bytes;
      if (!made[static_cast<size_t>(v)]) imported_.push_back(v);
    };
    const auto read = [&](int v) {
      if (v >= 0 && !reg(v).wide && reg(v).kind != LoopRegister::constant) give_place(v);
    };
    const auto visit = [&](const LoopItem& item, bool is_narrow) {
      if (item.kind == LoopItem::iota) return give_place(item.value);
      if (item.in != nullptr)
        for (const int v : {item.in->a, item.in->b, item.in->c})
          if (item.kind != LoopItem::store || v == item.in->a) read(v);
      if ((is_narrow && item.kind == LoopItem::compute) || item.kind == LoopItem::fold) {
        made[static_cast<size_t>(item.value)] = true;
        give_place(item.value);
      }
    };
    frame_.only_folds = true;
    for (const LoopSection& section : schedule.sections)
      for (const LoopItem& item : section.pass)
        frame_.only_folds = frame_.only_folds && item.kind != LoopItem::accumulate &&
                            item.kind != LoopItem::keep && item.kind != LoopItem::store;
    for (size_t s = begin; s < end; ++s) {
      for (const LoopItem& item : schedule.sections[s].narrow) visit(item, true);
      for (const LoopItem& item : schedule.sections[s].pass) visit(item, false);
    }
    frame_.spill_begin = (top + 63) / 64 * 64;
    frame_.pairs = fold_places() - target_.vector_bytes() * kStreams / 2;
    frame_.spill_end = frame_.pairs;
    failed_ |= frame_.spill_begin > frame_.spill_end;
  }

  // Moves the registers and begins again unless that was the last row.
  void next_row(const std::vector<LoopPlan::RowStep>& steps, LoopEncoder::Label row) {
    const auto count = static_cast<int32_t>(8 * registers_.size());
    int32_t bytes = count;
    for (const LoopPlan::RowStep& step : steps) {
      code_.load(Gpr::rax, Gpr::rdi, 8 * step.value);
      code_.load(Gpr::rdx, Gpr::rdi, bytes += 8);
      code_.add(Gpr::rax, Gpr::rdx);
      code_.store(Gpr::rdi, 8 * step.value, Gpr::rax);
    }
    code_.load(Gpr::rax, Gpr::rdi, count);
    code_.add(Gpr::rax, -1);
    code_.store(Gpr::rdi, count, Gpr::rax);
    code_.jump(Jump::not_equal, row);
  }

  void import(int v) {
    const auto place = frame_.single[static_cast<size_t>(v)];
    code_.load(Gpr::rax, Gpr::rdi, 8 * v);
    switch (dtype_size(reg(v).dtype)) {
      case 1:
        code_.load8(Gpr::rax, Gpr::rax, 0);
        if (reg(v).dtype != DType::pred) break;
        code_.negate32(Gpr::rax);
        code_.spread_carry32(Gpr::rax);
        break;
      case 2:
        code_.load16(Gpr::rax, Gpr::rax, 0);
        break;
      case 4:
        code_.load32(Gpr::rax, Gpr::rax, 0);
        break;
      default:
        failed_ = true;
    }
    code_.store32(Gpr::rsp, place, Gpr::rax);
    if (target_.single_bytes == 4) return;
    code_.vector(vector_op::broadcast_ss, Vec{0}, at(Gpr::rsp, place));
    code_.vector(vector_op::store_ps, Vec{0}, at(Gpr::rsp, place));
  }

  // The single element in the frame to where a register points.
  void export_single(int v, int pointer_register) {
    if (reg(v).kind == LoopRegister::constant)
      code_.move_constant(Gpr::rdx, static_cast<int32_t>(reg(v).bits));
    else
      code_.load32(Gpr::rdx, Gpr::rsp, frame_.single[static_cast<size_t>(v)]);
    code_.load(Gpr::rax, Gpr::rdi, 8 * pointer_register);
    switch (dtype_size(reg(v).dtype)) {
      case 1:
        if (reg(v).dtype == DType::pred) code_.and32(Gpr::rdx, 1);
        return code_.store8(Gpr::rax, 0, Gpr::rdx);
      case 2:
        return code_.store16(Gpr::rax, 0, Gpr::rdx);
      default:
        return code_.store32(Gpr::rax, 0, Gpr::rdx);
    }
  }

  void narrow(const std::vector<LoopItem>& items, const std::vector<bool>& kept) {
    std::vector<LoopItem> computed;
    for (const LoopItem& item : items)
      if (item.kind == LoopItem::compute) computed.push_back(item);
    frame_.accumulators = 0;
    block_.begin(computed, {false, false, 0, 0});
    for (const LoopItem& item : computed) {
      emit_op(block_, *item.in);
      block_.store_single(block_.in(item.value), item.value);
      block_.end_item();
    }
    for (const LoopItem& item : items) {
      if (item.kind == LoopItem::store)
        export_single(item.value, item.in->b);
      else if (kept[static_cast<size_t>(item.value)])
        export_single(item.value, item.value);
    }
  }

  void pass(const std::vector<LoopItem>& items) {
    if (items.empty()) return;
    folds_.clear();
    for (const LoopItem& item : items)
      if (item.kind == LoopItem::fold) folds_.push_back(item.in);
    frame_.accumulators =
        target_.fold_vectors() * std::min(static_cast<int>(folds_.size()), target_.register_folds);
    failed_ |= folds_.size() > kMostFolds;
    if (failed_) return;
    load_pointers(items);
    start_folds();
    frame_.rounds = holds_rounding(items);
    if (frame_.rounds) hold_rounding();
    pairs_ = streams_ > 1 && fits_pairs(items);
    const int streams = pairs_ ? streams_ / 2 * 2 : streams_;
    const int vectors = folds_.empty() ? streams : target_.fold_vectors();
    const auto tail = code_.new_label(), done = code_.new_label();
    code_.clear(Gpr::rcx);
    whole_vectors(items, vectors, tail);
    code_.bind(tail);
    if (folds_.empty() && vectors > 2) {  // of the rest what two hold, in turn too
      const auto rest = code_.new_label();
      whole_vectors(items, 2, rest);
      code_.bind(rest);
    }
    frame_.streams = 1;
    if (target_.has_masks)
      masked_vectors(items, vectors, done);
    else
      last_vectors(items, vectors, done);
    code_.bind(done);
    finish_folds();
  }

  // Whether registers hold what rounding reads.
  bool holds_rounding(const std::vector<LoopItem>& items) const {
    if (!holds_ || target_.has_masks || frame_.accumulators > 0) return false;
    return std::any_of(items.begin(), items.end(), [](const LoopItem& item) {
      return item.kind == LoopItem::compute &&
             (item.in->op == LoopOp::round_to_bf16 ||
              (item.in->op == LoopOp::convert && item.in->result == DType::bf16));
    });
  }
  void hold_rounding() {
    frame_.accumulators = static_cast<int>(BlockEmitter::kRounding.size());
    for (size_t i = 0; i < BlockEmitter::kRounding.size(); ++i)
      code_.vector(vector_op::load_ps,
                   block_.rounding_register(static_cast<BlockEmitter::Rounding>(i)),
                   code_.constant(BlockEmitter::kRounding[i]));
  }

  // Whether all that is read and stored is bf16, so that vectors may hold the even or the odd
  // elements: a shift or a mask widens those, and stored they need no packing.
  bool fits_pairs(const std::vector<LoopItem>& items) const {
    if (target_.has_masks) return false;
    std::vector<bool> computed(registers_.size(), false);
    for (const LoopItem& item : items) {
      const LoopInstruction* const in = item.in;
      const bool is_convert = in != nullptr && in->op == LoopOp::convert;
      if (item.kind == LoopItem::store) {
        if (!computed[static_cast<size_t>(item.value)] || reg(item.value).dtype != DType::bf16)
          return false;
        continue;
      }
      if (item.kind != LoopItem::compute) return false;
      for (const int v : {in->a, in->b, in->c}) {
        if (v < 0 || reg(v).kind == LoopRegister::constant) continue;
        const bool is_read = reg(v).wide && !computed[static_cast<size_t>(v)];
        if (is_read && !(is_convert && in->input == DType::bf16 && in->result == DType::f32))
          return false;
        if (!is_read && dtype_size(reg(v).dtype) == 2) return false;
      }
      const DType result = reg(item.value).dtype;
      if (dtype_size(result) == 2 &&
          !(is_convert && in->input == DType::f32 && result == DType::bf16))
        return false;
      computed[static_cast<size_t>(item.value)] = true;
    }
    return true;
  }

  // While there are as many elements as `vectors` have.
  void whole_vectors(const std::vector<LoopItem>& items, int vectors, LoopEncoder::Label tail) {
    frame_.streams = streams_;
    while (vectors % frame_.streams != 0) --frame_.streams;
    const auto loop = code_.new_label();
    code_.move(Gpr::rdx, Gpr::rsi);
    code_.add(Gpr::rdx, 1 - target_.lanes * vectors);
    code_.compare(Gpr::rcx, Gpr::rdx);
    code_.jump(Jump::greater_or_equal, tail);
    code_.bind(loop);
    start_iotas(items);
    for (int v = 0; v < vectors; v += frame_.streams) {
      std::vector<size_t> begins;
      for (int stream = 0; stream < frame_.streams; ++stream) {
        begins.push_back(code_.size());
        const int half = pairs_ && frame_.streams % 2 == 0 ? stream % 2 : -1;
        vector(items, {true, false, v + stream, stream, half},
               vectors > 1 ? v + stream : kSetOfElement);
        if (half == 1)  // see store_half
          failed_ |=
              code_.count_from(begins[begins.size() - 2]) != 2 * code_.count_from(begins.back());
      }
      code_.interleave(begins);
    }
    code_.add(Gpr::rcx, target_.lanes * vectors);
    code_.compare(Gpr::rcx, Gpr::rdx);
    code_.jump(Jump::less, loop);
  }

  // The rest, each vector masked.
  void masked_vectors(const std::vector<LoopItem>& items, int vectors, LoopEncoder::Label done) {
    for (int v = 0; v < vectors; ++v) {
      code_.move(Gpr::rax, Gpr::rsi);
      code_.subtract(Gpr::rax, Gpr::rcx);
      code_.jump(Jump::less_or_equal, done);
      code_.move_constant(Gpr::rdx, -1);
      code_.low_bits(Gpr::rdx, Gpr::rdx, Gpr::rax);
      code_.mask_from(static_cast<uint8_t>(block_.tail_mask().id), Gpr::rdx);
      start_iotas(items);
      vector(items, {true, true, 0, 0}, v);
      code_.add(Gpr::rcx, target_.lanes);
    }
  }

  // The rest where masks cost more: whole vectors one by one, then one masked.
  void last_vectors(const std::vector<LoopItem>& items, int vectors, LoopEncoder::Label done) {
    const auto rest = code_.new_label();
    if (vectors > 1) whole_vectors(items, 1, rest);
    code_.bind(rest);
    code_.move(Gpr::rax, Gpr::rsi);
    code_.subtract(Gpr::rax, Gpr::rcx);
    code_.jump(Jump::less_or_equal, done);
    const Vec mask = block_.tail_mask();
    std::array<uint32_t, 16> lanes;
    std::iota(lanes.begin(), lanes.end(), 0u);
    code_.vector(vector_op::from_gpr, mask, Vec{static_cast<uint8_t>(Gpr::rax)});
    code_.vector(vector_op::broadcast_d, mask, mask);
    code_.vector(vector_op::greater_d, mask, mask, code_.constant(lanes));
    start_iotas(items);
    vector(items, {true, true, 0, 0}, kSetOfElement);
  }

  void load_pointers(const std::vector<LoopItem>& items) {
    pointers_.gpr.assign(registers_.size(), -1);
    size_t used = 0;
    const auto give = [&](int v) {
      int& gpr = pointers_.gpr[static_cast<size_t>(v)];
      if (gpr >= 0 || used == kPointerRegisters.size()) return;
      gpr = static_cast<int>(kPointerRegisters[used++]);
      code_.load(static_cast<Gpr>(gpr), Gpr::rdi, 8 * v);
    };
    std::vector<bool> computed(registers_.size(), false);
    for (const LoopItem& item : items) {
      if (item.kind == LoopItem::compute || item.kind == LoopItem::iota)
        computed[static_cast<size_t>(item.value)] = true;
      if (item.kind == LoopItem::keep || item.kind == LoopItem::accumulate) give(item.value);
      if (item.kind == LoopItem::store) give(item.in->b);
      if (item.in == nullptr || item.kind == LoopItem::iota) continue;
      for (const int v : {item.in->a, item.in->b, item.in->c}) {
        if (item.kind == LoopItem::store && v != item.in->a) continue;
        if (v >= 0 && reg(v).wide && !computed[static_cast<size_t>(v)]) give(v);
      }
    }
  }

  int32_t iota_places() const { return target_.frame_bytes - kIotaBytes; }
  int32_t fold_places() const { return target_.frame_bytes - kFoldAndIotaBytes; }

  // The lanes of fold f of a set, or where they stand in the frame.
  bool in_registers(size_t f) const { return f < static_cast<size_t>(target_.register_folds); }
  Vec lanes(size_t f, int set) const {
    const int before = target_.fold_vectors() * static_cast<int>(f) + set;
    return Vec{static_cast<uint8_t>(target_.registers - 1 - before)};
  }
  MemoryOperand lanes_in_frame(size_t f, int set) const {
    const int before = target_.fold_vectors() * (static_cast<int>(f) - target_.register_folds);
    const int32_t place = fold_places() + target_.vector_bytes() * before;
    if (set != kSetOfElement) return at(Gpr::rsp, place + target_.vector_bytes() * set);
    MemoryOperand m = at(Gpr::rsp, place);
    m.kind = MemoryOperand::at_base_and_index;
    m.index = Gpr::r15;
    m.scale = 4;
    return m;
  }

  void start_folds() {
    for (size_t f = 0; f < folds_.size(); ++f) {
      const uint32_t bits = identity_bits(folds_[f]->op, folds_[f]->input);
      for (int set = 0; set < target_.fold_vectors(); ++set) {
        const Vec to = in_registers(f) ? lanes(f, set) : Vec{0};
        code_.vector(vector_op::broadcast_ss, to, code_.constant(bits));
        if (!in_registers(f)) code_.vector(vector_op::store_ps, to, lanes_in_frame(f, set));
      }
    }
  }

  void vector(const std::vector<LoopItem>& items, BlockEmitter::Place place, int set) {
    block_.begin(items, place);
    size_t fold = 0;
    int iota_count = 0;
    for (const LoopItem& item : items) {
      switch (item.kind) {
        case LoopItem::compute:
          emit_op(block_, *item.in);
          break;
        case LoopItem::iota:
          iota(item.value, iota_count++);
          break;
        case LoopItem::fold:
          fold_vector(*item.in, fold++, set);
          break;
        case LoopItem::accumulate:
          accumulate(*item.in);
          break;
        case LoopItem::keep:
          block_.store(block_.in(item.value), item.value, reg(item.value).dtype);
          break;
        case LoopItem::store:
          block_.store(block_.in(item.value), item.in->b, reg(item.value).dtype);
          break;
      }
      block_.end_item();
    }
  }

  // What element rcx of each iota is, for the vectors that follow.
  void start_iotas(const std::vector<LoopItem>& items) {
    int32_t place = iota_places();
    for (const LoopItem& item : items) {
      if (item.kind != LoopItem::iota) continue;
      code_.load32(Gpr::rax, Gpr::rsp, frame_.single[static_cast<size_t>(item.value)]);
      code_.add(Gpr::rax, Gpr::rcx);
      code_.store32(Gpr::rsp, place, Gpr::rax);
      place += 4;
      failed_ |= place > target_.frame_bytes;
    }
  }

  void iota(int v, int which) {
    std::array<uint32_t, 16> steps;
    std::iota(steps.begin(), steps.end(),
              static_cast<uint32_t>(target_.lanes * block_.place().vector));
    const Vec to = block_.out(v);
    MemoryOperand first = at(Gpr::rsp, iota_places() + 4 * which);
    if (target_.has_masks) {
      code_.vector(vector_op::load_ps, to, code_.constant(steps));
      first.broadcast = true;
      return code_.vector(vector_op::add_d, to, to, first);
    }
    code_.vector(vector_op::broadcast_ss, to, first);
    code_.vector(vector_op::add_d, to, to, code_.constant(steps));
  }

  void fold_vector(const LoopInstruction& in, size_t f, int set) {
    const Vec x = block_.in(in.a);
    const bool tail = block_.place().tail;
    Vec sum = lanes(f, std::max(set, 0));
    if (set == kSetOfElement) {
      code_.move(Gpr::r15, Gpr::rcx);
      code_.and32(Gpr::r15, 63);
    }
    if (!in_registers(f)) {
      sum = block_.temporary();
      code_.vector(vector_op::load_ps, sum, lanes_in_frame(f, set));
    }
    if (!tail) {
      emit_combine(block_, in.op, in.input, sum, sum, x);
    } else {
      const Vec next = block_.temporary();
      emit_combine(block_, in.op, in.input, next, sum, x);
      block_.put(sum, next, block_.tail_mask());
    }
    if (!in_registers(f)) code_.vector(vector_op::store_ps, sum, lanes_in_frame(f, set));
  }

  void accumulate(const LoopInstruction& in) {
    const Vec x = block_.in(in.a);
    // Until here it stands in memory only.
    const Vec sum = block_.temporary(), to = block_.out(in.out);
    const int gpr = pointers_.gpr[static_cast<size_t>(in.out)];
    const Gpr base = gpr >= 0 ? static_cast<Gpr>(gpr) : block_.pointer();
    MemoryOperand m = at(base, target_.vector_bytes() * block_.place().vector);
    if (gpr < 0) code_.load(base, Gpr::rdi, 8 * in.out);
    m.kind = MemoryOperand::at_base_and_index;
    m.scale = 4;
    if (target_.has_masks) {
      block_.load_lanes(sum, m);
      emit_combine(block_, in.op, in.input, to, sum, x);
      return block_.store(to, in.out, reg(in.out).dtype);
    }
    // It has room up to the next 64 bytes, and the next row waits for what is stored masked.
    code_.vector(vector_op::load_ps, sum, m);
    emit_combine(block_, in.op, in.input, to, sum, x);
    code_.vector(vector_op::store_ps, to, m);
  }

  // Lanes in halves, then with what the accumulator holds.
  void finish_folds() {
    const int count = target_.fold_vectors();
    frame_.accumulators = std::max(frame_.accumulators, folds_.empty() ? 0 : count);
    for (size_t f = 0; f < folds_.size(); ++f) {
      const LoopInstruction& in = *folds_[f];
      std::vector<Vec> sets(static_cast<size_t>(count));
      for (int set = 0; set < count; ++set) {
        Vec& s = sets[static_cast<size_t>(set)];
        s = lanes(in_registers(f) ? f : 0, set);  // those of the first are done with
        if (!in_registers(f)) code_.vector(vector_op::load_ps, s, lanes_in_frame(f, set));
      }
      const auto combine = [&](Vec to, Vec x, Vec y) {
        block_.begin({}, {false, false, 0, 0});
        block_.temporary();  // register 0, which holds the other half
        emit_combine(block_, in.op, in.input, to, x, y);
      };
      for (size_t half = sets.size() / 2; half > 0; half /= 2)
        for (size_t set = 0; set < half; ++set) combine(sets[set], sets[set], sets[set + half]);
      const Vec t{0};
      fold_lanes(sets[0], t, combine);
      code_.load(Gpr::rax, Gpr::rdi, 8 * in.out);
      code_.vector(vector_op::broadcast_ss, t, at(Gpr::rax, 0));
      combine(t, t, sets[0]);
      code_.vector(vector_op::store_ss, t, at(Gpr::rax, 0));
      if (target_.single_bytes != 4) code_.vector(vector_op::broadcast_ss, t, t);
      block_.store_single(t, in.out);
    }
  }

  // A vector's lanes in halves, into the first.
  template <class Combine>
  void fold_lanes(Vec sum, Vec other, Combine&& combine) {
    const auto permute = [&](const VectorOp& op, Vec first, int order) {
      code_.vector(op, other, first, sum, order);
      combine(sum, sum, other);
    };
    if (target_.lanes == 16) {
      permute(vector_op::shuffle_quarters, sum, 0x4E);
      permute(vector_op::shuffle_quarters, sum, 0xB1);
    } else {
      permute(vector_op::swap_halves, sum, 1);
    }
    permute(vector_op::permute_ps, Vec{}, 0x4E);
    permute(vector_op::permute_ps, Vec{}, 0xB1);
  }

  const LoopCodeTarget& target_;
  const std::vector<LoopRegister>& registers_;
  const int streams_;
  const bool holds_;
  LoopEncoder code_;
  BlockEmitter::Frame frame_;
  BlockEmitter::Pointers pointers_;
  BlockEmitter block_;
  std::vector<int> imported_;
  std::vector<const LoopInstruction*> folds_;  // of the pass
  bool pairs_ = false;                         // of the pass: see BlockEmitter::Place
  bool failed_ = false;
};

}  // namespace

bool write_functions(const LoopCodeTarget& target, const std::vector<LoopRegister>& registers,
                     const std::vector<CodeFunction>& functions, std::vector<uint8_t>& code,
                     std::vector<size_t>& starts) {
  // Last of all the constants of rounding leave their registers, which logarithms may need.
  for (int streams = kStreams; streams >= 0; --streams) {
    Writer writer(target, registers, std::max(streams, 1), streams > 0);
    starts.clear();
    for (const CodeFunction& f : functions) starts.push_back(writer.write(f));
    if (writer.failed()) continue;  // too few registers for so many streams
    code = writer.finish();
    return true;
  }
  return false;
}

}  // namespace gspmd
