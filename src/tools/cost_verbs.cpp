#include <fmt/format.h>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/explain/estimate_cost.h"
#include "tools/command.h"
#include "tools/copies.h"
#include "tools/execute.h"
#include "tools/report.h"
#include "tools/streams.h"

namespace gspmd::tools {

namespace {

// What is priced: a program per device, partitioned here or given as one.
struct Priced {
  CompiledModule compiled;
  std::unique_ptr<Module> given;  // a per-device program, else nullptr
  int64_t num_devices = 1;
  const Module& local() const { return given ? *given : *compiled.local; }
  std::vector<CollectiveStats> collectives() const {
    if (given) return collective_stats(*given);
    return collective_stats(*compiled.local, mesh_of(*compiled.completed).get());
  }
};

Priced priced(const Command& command) {
  const std::unique_ptr<Module> module = load_for_devices(command);
  Priced result;
  if (runs_as_copies(*module)) {
    CopiesProgram copies = prepare_copies(*module);
    result.given = std::move(copies.module);
    result.compiled = std::move(copies.compiled);
    result.num_devices = copies.num_devices;
  } else {
    Prepared prepared = prepare(*module, pipeline_options(command, *module));
    result.compiled = std::move(prepared.compiled);
    result.num_devices = prepared.num_devices;
  }
  return result;
}

}  // namespace

int cost_verb(const Command& command) {
  const Priced prepared = priced(command);
  check_memory_limit(prepared.compiled.plan, command.memory_limit, command.file);
  const DeviceModel device;
  const CostEstimate cost = estimate_cost(prepared.local(), device);
  const std::vector<CollectiveStats> collectives = prepared.collectives();
  if (command.json) {
    std::vector<std::string> peak_tensors;
    for (const HeldTensor& tensor : prepared.compiled.plan.peak_tensors)
      peak_tensors.push_back(to_string(tensor));
    Json again = Json::array();
    for (const Recomputation& r : prepared.compiled.recomputations)
      again.push_back({{"name", r.name},
                       {"shape", to_string(r.shape)},
                       {"before", r.before},
                       {"bytes", r.bytes},
                       {"flops", r.flops},
                       {"source", r.source}});
    print_json({{"flops_per_device", cost.flops},
                {"memory_bytes_per_device", cost.memory_bytes},
                {"collective_bytes_per_device", cost.collective_bytes},
                {"peak_bytes_per_device", prepared.compiled.plan.peak_bytes},
                {"peak_op", prepared.compiled.plan.peak_op},
                {"peak_tensors", peak_tensors},
                {"recomputations", again},
                {"seconds", cost.seconds},
                {"device",
                 {{"flops_per_second", device.flops_per_second},
                  {"memory_bytes_per_second", device.memory_bytes_per_second},
                  {"link_bytes_per_second", device.link_bytes_per_second},
                  {"collective_latency_seconds", device.collective_latency_seconds}}},
                {"collectives", to_json(collectives)}});
    return 0;
  }
  print_out("per device, one run on {} devices\n", prepared.num_devices);
  print_out("  arithmetic         {:.6g} FLOPs\n", cost.flops);
  print_out("  memory traffic     {:.6g} bytes\n", cost.memory_bytes);
  print_out("  sent to others     {:.6g} bytes in {:.0f} collectives\n", cost.collective_bytes,
            cost.collectives);
  print_out("  peak memory        {} bytes, at {}\n", prepared.compiled.plan.peak_bytes,
            prepared.compiled.plan.peak_op.empty() ? "no intermediate value"
                                                   : prepared.compiled.plan.peak_op);
  for (const Recomputation& recomputation : prepared.compiled.recomputations)
    print_out("  made again         {}\n", to_string(recomputation));
  print_out(
      "  estimated time     {:.3g} s on devices of {:.3g} FLOP/s, {:.3g} B/s memory, {:.3g} B/s "
      "links\n",
      cost.seconds, device.flops_per_second, device.memory_bytes_per_second,
      device.link_bytes_per_second);
  write_output(to_table(collectives));
  return 0;
}

namespace {

// One instruction of most opcodes, for the factor rules that `gspmd ops` shows.
constexpr const char* kSamples = R"(HloModule samples, num_partitions=2
sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
less {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = pred[] compare(x, y), direction=LT
}
ENTRY samples {
  a = f32[4,6] parameter(0)
  b = f32[6,8] parameter(1)
  i = s32[3] parameter(2)
  u = f32[3,6] parameter(3)
  s = f32[] parameter(4)
  n = s32[] parameter(5)
  p = pred[4,6] parameter(14)
  c = f32[] constant(0)
  r1 = s32[4,6] iota(), iota_dimension=0
  r2 = f32[4,6] copy(a)
  r3 = f64[4,6] convert(a)
  r4 = f32[2,2,6] reshape(a)
  r5 = f32[4,3,6] broadcast(a), dimensions={0,2}
  r6 = f32[6,4] transpose(a), dimensions={1,0}
  r7 = f32[4,6] reverse(a), dimensions={1}
  r8 = f32[8,6] concatenate(a, a), dimensions={0}
  r9 = f32[6,6] pad(a, s), padding=1_1x0_0
  r10 = f32[2,6] slice(a), slice={[1:3], [0:6]}
  r11 = f32[2,6] dynamic-slice(a, n, n), dynamic_slice_sizes={2,6}
  r12 = f32[4,6] dynamic-update-slice(a, u, n, n)
  r13 = f32[3,6] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}
  r14 = f32[4,6] scatter(a, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
  r15 = f32[4,6] select(p, a, a)
  r16 = f32[4,6] clamp(s, a, s)
  r17 = pred[4,6] compare(a, a), direction=LT
  r18 = f32[4,6] add(a, a)
  r19 = f32[4,6] exponential(a)
  r20 = f32[4,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r21 = f32[4] reduce(a, c), dimensions={1}, to_apply=sum
  s24 = f32[2,3] parameter(13)
  r22 = f32[4,6] all-reduce(a), replica_groups={}, to_apply=sum
  q = f32[1,8,6,2] parameter(6)
  k = f32[3,3,2,4] parameter(7)
  z = c64[4,6] parameter(8)
  m = f32[5,4,4] parameter(9)
  r23 = f32[1,8,6,4] convolution(q, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  r24 = f32[2,3] reduce-window(a, c), window={size=2x2 stride=2x2}, to_apply=sum
  r25 = f32[4,6] sort(a), dimensions={1}, to_apply=less
  r26 = c64[4,6] fft(z), fft_type=FFT, fft_length={6}
  r27 = f32[5,4,4] cholesky(m), lower=true
  r28 = f32[5,4,4] triangular-solve(m, m), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  r29 = (f32[4,3], s32[4,3]) topk(a), k=3, largest=true
  r30 = f32[4,6] map(a, a), dimensions={0,1}, to_apply=sum
  g2 = s32[2] parameter(10)
  w2 = f32[2,6,8] parameter(11)
  r31 = f32[4,8] ragged-dot(a, w2, g2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
  v6 = f32[6] parameter(12)
  r32 = f32[4,6] batch-norm-inference(a, v6, v6, v6, v6), epsilon=0.001, feature_index=1
  r33 = f32[4,6] reduce-precision(a), exponent_bits=5, mantissa_bits=10
  r34 = s32[4,6] bitcast-convert(a)
  r35 = f32[4,6] select-and-scatter(a, s24, c), window={size=2x2 stride=2x2}, select=less, scatter=sum
  r36 = c64[4,6] complex(a, a)
}
)";

// opcode -> factor rule of the first sample; ops of one kind share the sample of add or
// exponential.
std::map<Opcode, std::string> sample_rules() {
  std::map<Opcode, std::string> rules;
  const std::unique_ptr<Module> module = parse_module(kSamples, "samples");
  for (const auto& node : module->entry()->nodes())
    if (node->op().factors != nullptr && !node->operands().empty())
      rules.emplace(node->opcode(), to_string(node->op().factors(*node)));
  return rules;
}

// Completion reads the op's loop nest.
bool speaks(const OpInfo& op) { return op.completion.speakers != Speakers::none; }

struct Aspect {
  const char* name;
  bool (*present)(const OpInfo& op);
};
constexpr Aspect kAspects[] = {
    {"infer", [](const OpInfo& op) { return op.infer != nullptr; }},
    {"factors", [](const OpInfo& op) { return op.factors != nullptr; }},
    {"evaluate", [](const OpInfo& op) { return op.evaluate != nullptr; }},
    {"gradient", [](const OpInfo& op) { return op.gradient || op.leaf_gradient; }},
    {"forward_sharding", [](const OpInfo& op) { return op.completion.forward || speaks(op); }},
    {"backward_sharding", [](const OpInfo& op) { return op.completion.suggestions || speaks(op); }},
    {"partition", [](const OpInfo& op) { return op.partition != nullptr; }},
    {"lower", [](const OpInfo& op) { return op.lower != nullptr; }},
    {"flops", [](const OpInfo& op) { return op.flops != nullptr; }},
};

}  // namespace

int ops_verb(const Command& command) {
  const std::map<Opcode, std::string> rules = sample_rules();
  Json list = Json::array();
  for (int64_t i = 0; i < opcode_count(); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const OpInfo& op = op_info(opcode);
    std::vector<std::string> aspects;
    for (const Aspect& aspect : kAspects)
      if (aspect.present(op)) aspects.emplace_back(aspect.name);
    auto rule = rules.find(opcode);
    if (rule == rules.end() && op.has(kElementwise) && op.operands.most <= 2)
      rule = rules.find(op.operands.most == 2 ? Opcode::add : Opcode::exponential);
    const std::string text = rule == rules.end() ? "" : rule->second;
    if (command.json)
      list.push_back({{"name", opcode_name(opcode)}, {"aspects", aspects}, {"rule", text}});
    else
      print_out("{:<22} {:<44} {}\n", opcode_name(opcode), text, fmt::join(aspects, " "));
  }
  if (command.json) print_json({{"ops", list}});
  return 0;
}

}  // namespace gspmd::tools
