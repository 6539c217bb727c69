#include "kernels/loop_code.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "kernels/loop_code_function.h"
#include "kernels/loop_code_passes.h"
#include "kernels/loop_code_rounding.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace gspmd {
namespace {

// Code of equal programs is made once and lives as long as a kernel that runs it.
struct Generated {
  std::weak_ptr<const CodeMemory> memory;
  std::vector<size_t> starts;  // of its functions
};
constexpr size_t kManyPrograms = 4096;
std::mutex generated_mutex;
std::map<std::string, Generated>& generated() {
  static std::map<std::string, Generated> map;
  return map;
}
LoopCodeStats stats;  // under the same mutex

// All that the code depends on.
std::string content(const LoopCodeTarget& target, const LoopPlan& plan,
                    const std::vector<LoopRegister>& registers) {
  std::string key;
  const auto put = [&](auto value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    key.append(bytes, sizeof value);
  };
  put(target.name);
  put(plan.flat), put(plan.by_rows);
  if (plan.by_rows)
    for (const LoopPlan::Pointer& p : plan.pointers) put(p.value);
  for (const LoopRegister& r : registers) {
    put(r.kind), put(r.dtype), put(r.wide), put(r.is_bf16), put(r.short_nan);
    if (r.kind == LoopRegister::constant) put(r.bits);
  }
  for (const LoopStream& s : plan.streams)
    put(s.value), put(s.kind), put(s.access), put(s.dtype), put(s.inner);
  for (const auto* list : {&plan.body, &plan.post}) {
    put(list->size());
    for (const LoopInstruction& in : *list) {
      put(in.kind), put(in.op), put(in.input), put(in.result), put(in.wide);
      put(in.out), put(in.a), put(in.b), put(in.c);
    }
  }
  return key;
}

// One list: what becomes of it, and where code stands.
struct Rewritten {
  std::vector<LoopInstruction> list;
  std::vector<size_t> functions;  // places in `list`
};

bool is_empty(const LoopSection& s) { return s.narrow.empty() && s.pass.empty(); }

// What functions behind a break read of single elements goes through memory.
void keep_over_breaks(LoopSchedule& schedule) {
  const auto has_break = [](const LoopSection& s) { return s.needs_break(); };
  if (std::none_of(schedule.sections.begin(), schedule.sections.end(), has_break)) return;
  for (const LoopSection& s : schedule.sections)
    for (const LoopItem& item : s.narrow)
      if (item.kind == LoopItem::compute) schedule.kept[static_cast<size_t>(item.value)] = true;
}

// `add_function`: of sections [begin, end).
template <class AddFunction>
Rewritten rewrite(const LoopPlan& plan, const LoopSchedule& schedule, AddFunction&& add_function) {
  Rewritten result;
  for (const LoopInstruction* in : schedule.loads) {
    result.list.push_back(*in);
    if (is_lane_iota(plan, *in)) result.list.back().wide = false;  // code counts on from the first
  }
  const std::vector<LoopSection>& sections = schedule.sections;
  for (size_t begin = 0; begin < sections.size();) {
    for (const LoopInstruction* in : sections[begin].interpreted) result.list.push_back(*in);
    size_t end = begin + 1;
    while (end < sections.size() && !sections[end].needs_break()) ++end;
    const auto from = sections.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to = sections.begin() + static_cast<std::ptrdiff_t>(end);
    if (!std::all_of(from, to, is_empty)) {
      result.functions.push_back(result.list.size());
      LoopInstruction in;
      in.kind = LoopInstruction::code;
      result.list.push_back(in);
      add_function(schedule, begin, end);
    }
    begin = end;
  }
  return result;
}

// What code moves from row to row. False where anything but code computes between rows.
bool add_row_steps(LoopPlan& plan, const std::vector<LoopInstruction>& list,
                   const std::vector<bool>& kept) {
  for (const LoopPlan::Pointer& p : plan.pointers) plan.row_steps.push_back({p.value, 0});
  bool is_computed = false;
  for (const LoopInstruction& in : list) {
    const bool fits = in.kind == (is_computed ? LoopInstruction::store : LoopInstruction::code);
    if (in.kind == LoopInstruction::load && !is_computed)
      plan.row_steps.push_back({plan.streams[static_cast<size_t>(in.out)].value, 0});
    else if (!fits)
      return false;
    is_computed |= in.kind == LoopInstruction::code;
  }
  for (size_t v = 0; v < kept.size(); ++v)
    if (kept[v]) plan.row_steps.push_back({static_cast<int>(v), 0});
  return is_computed;
}

// The code of these functions, from an equal program where there is one; nullptr where there is
// none to be had.
std::shared_ptr<const CodeMemory> code_of(const std::string& key, const LoopCodeTarget& target,
                                          const std::vector<CodeFunction>& functions,
                                          const std::vector<LoopRegister>& registers,
                                          std::vector<size_t>& starts) {
  const std::lock_guard lock(generated_mutex);
  if (generated().size() > kManyPrograms)
    std::erase_if(generated(), [](const auto& entry) { return entry.second.memory.expired(); });
  Generated& entry = generated()[key];
  if (std::shared_ptr<const CodeMemory> memory = entry.memory.lock()) {
    ++stats.shared;
    starts = entry.starts;
    return memory;
  }
  std::vector<uint8_t> code;
  if (!write_functions(target, registers, functions, code, entry.starts)) return nullptr;
  std::shared_ptr<const CodeMemory> memory = CodeMemory::make(code);
  if (memory == nullptr) return nullptr;
  ++stats.generated;
  stats.bytes += static_cast<int64_t>(code.size());
  entry.memory = memory;
  starts = entry.starts;
  return memory;
}

bool is_switched_off() {
  const char* const text = std::getenv("GSPMD_LOOP_CODE");
  return text != nullptr && std::string_view(text) == "0";
}

// A page that can be executed, once.
bool gives_executable_memory() { return CodeMemory::make({0xC3}) != nullptr; }

#if defined(__x86_64__)
// Not every compiler knows it by name.
bool converts_halves() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

bool runs([[maybe_unused]] LoopTarget target) {
#if defined(__x86_64__)
  if (target == LoopTarget::avx2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && converts_halves();
  return target == LoopTarget::avx512 && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");
#else
  return false;
#endif
}

const LoopCodeTarget* best_target() {
  if (is_switched_off() || !gives_executable_memory()) return nullptr;
  if (runs(LoopTarget::avx512)) return &kAvx512Code;
  return runs(LoopTarget::avx2) ? &kAvx2Code : nullptr;
}

}  // namespace

bool runs_loop_target(LoopTarget target) {
  static const bool has_pages = gives_executable_memory();
  return target == LoopTarget::best || (has_pages && runs(target));
}

const LoopCodeTarget* loop_code_target(LoopTarget wanted) {
  static const LoopCodeTarget* const best = best_target();
  if (wanted == LoopTarget::best) return best;
  return wanted == LoopTarget::avx512 ? &kAvx512Code : &kAvx2Code;
}

LoopCodeStats loop_code_stats() {
  const std::lock_guard lock(generated_mutex);
  return stats;
}

void count_interpreted_loop() {
  const std::lock_guard lock(generated_mutex);
  ++stats.interpreted;
}

bool add_loop_code(const LoopCodeTarget& target, LoopPlan& plan,
                   std::vector<LoopRegister> registers, std::vector<bool>& kept) {
  for (const LoopInstruction& in : plan.body)
    if (is_lane_iota(plan, in))
      registers[static_cast<size_t>(plan.streams[static_cast<size_t>(in.out)].value)].kind =
          LoopRegister::computed;
  mark_bf16(target, plan, registers);
  const std::string key = content(target, plan, registers);
  std::vector<bool> outside(registers.size(), false);
  for (const LoopInstruction& in : plan.post)
    for (const int v : {in.a, in.b, in.c})
      if (v >= 0) outside[static_cast<size_t>(v)] = true;
  std::optional<LoopSchedule> body = schedule_passes(plan, plan.body, registers, outside);
  std::vector<LoopRegister> later = registers;
  for (const LoopInstruction& in : plan.body) {
    if (in.kind == LoopInstruction::store) continue;
    const int out =
        in.kind == LoopInstruction::load ? plan.streams[static_cast<size_t>(in.out)].value : in.out;
    later[static_cast<size_t>(out)].kind = LoopRegister::memory;
  }
  outside.assign(registers.size(), false);
  std::optional<LoopSchedule> post = schedule_passes(plan, plan.post, later, outside);
  if (!body || !post) return false;
  keep_over_breaks(*body);
  keep_over_breaks(*post);
  std::vector<CodeFunction> functions;
  const auto add = [&](const LoopSchedule& schedule, size_t begin, size_t end) {
    functions.push_back({&schedule, begin, end, &plan});
  };
  Rewritten new_body = rewrite(plan, *body, add), new_post = rewrite(plan, *post, add);
  if (plan.by_rows && !add_row_steps(plan, new_body.list, body->kept)) return false;
  std::vector<size_t> starts;
  plan.code = code_of(key, target, functions, registers, starts);
  if (plan.code == nullptr) return false;
  size_t next = 0;
  for (Rewritten* list : {&new_body, &new_post})
    for (const size_t place : list->functions)
      list->list[place].code_function = reinterpret_cast<LoopCodeFunction>(
          reinterpret_cast<uintptr_t>(plan.code->at(starts[next++])));
  kept.assign(registers.size(), false);
  for (size_t v = 0; v < registers.size(); ++v) kept[v] = body->kept[v] || post->kept[v];
  plan.body = std::move(new_body.list);
  plan.post = std::move(new_post.list);
  return true;
}

}  // namespace gspmd
