#include "tools/help.h"

namespace gspmd::tools {
namespace {

struct VerbText {
  const char* name;
  const char* description;
  const char* footer;
};

constexpr VerbText kTexts[] = {
    {"print",
     "Reads HLO or StableHLO text, checks every shape, attribute and call, and prints the module\n"
     "in canonical form. What it prints reads back as an equal module and prints as itself. Of\n"
     "several modules in a file, split by lines // -----, each is printed.",
     "JSON\n"
     "  {\"module\": \"<text>\"}\n"
     "\nExamples\n"
     "  gspmd print model.hlo\n"
     "  gspmd print model.mlir --emit hlo\n"
     "  gspmd propagate model.hlo | gspmd print -"},
    {"propagate",
     "Completes the shardings of a module from those that it has (arXiv:2105.04663), and\n"
     "prints the module. The sharding of a parameter or of the root that the file gives\n"
     "stays as it is, unless the options allow otherwise.",
     "JSON\n"
     "  {\"shardings\": {\"<computation>\": {\"<instruction>\": \"<sharding>\"}},\n"
     "   \"root\": {\"<computation>\": \"<instruction>\"}, \"changed\": bool}\n"
     "  and with --origins {\"origins\": {computation: {instruction: [{leaf, dim, size, stride,\n"
     "  annotation, also, also_count, annotation_set, via, path}]}}, \"annotation_sets\": "
     "[[...]]}:\n"
     "  for each digit of a sharding the annotated instruction that it comes from, others that\n"
     "  would bring it too (the first of them; the set has all), and the neighbour that passed\n"
     "  it on.\n"
     "\nExamples\n"
     "  gspmd propagate model.hlo --num-devices 8\n"
     "  gspmd propagate model.hlo --allow-output-propagation --json\n"
     "  gspmd propagate model.hlo --allow-parameter-propagation=true,false,true"},
    {"partition",
     "Completes the shardings and prints the one program that every device runs: shapes are\n"
     "those of shards (ceil(dim / tiles)), collectives move what devices need of each other.\n"
     "The parameters and results are the module's, in shard shapes. As fast for 65,536 devices\n"
     "as for 8.",
     "JSON\n"
     "  {\"module\": \"<hlo text>\", \"collectives\": [...], \"full_rematerializations\": [...],\n"
     "   \"instructions\": n, \"seconds\": s}; collectives as `gspmd explain` describes them.\n"
     "\nExamples\n"
     "  gspmd partition model.hlo --num-devices 64\n"
     "  gspmd partition model.hlo --no-propagate --dump-after all 2>passes.txt"},
    {"run",
     "Runs a module. On several devices it is partitioned and runs on a simulated mesh; results\n"
     "are gathered. A module that is a per-device program already - it has collectives or\n"
     "partition-id, and no sharding that splits anything - runs whole on every device.",
     "Inputs\n"
     "  --inputs in.npz has an array for each entry parameter, named by its number: 0, 1, ...;\n"
     "  leaves of tuples are 0.0, 0.1, 1.0.2. bf16 is stored as |V2, pred as |b1, complex as\n"
     "  <c8 and <c16, 8-bit floats as |V1, smaller integers as |i1 and |u1. Without it inputs\n"
     "  are random, the same for any number of devices. For a per-device program an array may\n"
     "  have a leading dim of the number of devices, and is then one value for each.\n"
     "  --expected out.npz has an array for each leaf of the result, 0, 1, ...: results are "
     "compared\n"
     "  with them by the tolerances of verify.\n"
     "  FILE may be a folder with one file *.mlir or *.hlo, its inputs.npz and its outputs.npz, "
     "which\n"
     "  are --inputs and --expected where these are not given (docs/jax_programs.md).\n"
     "\nJSON\n"
     "  {\"outputs\": [{\"dtype\": \"f32\", \"shape\": [2,3], \"data\": [...]}],\n"
     "   \"evaluated\": [{op, instruction, shape, source}], \"peak_bytes_per_device\": n,\n"
     "   \"seconds\": {\"compile\": s, \"run\": s}}\n"
     "  \"evaluated\" is what has no kernel and runs element by element, on one thread; without\n"
     "  --json it is said on standard error.\n"
     "  One output per leaf of the result; data is flat, row-major, left out above 65,536\n"
     "  elements. NaN and infinities are \"nan\", \"inf\", \"-inf\"; complex numbers [re, im]; "
     "pred\n"
     "  true or false. Per-device programs add \"device_outputs\", a list for each device;\n"
     "  \"outputs\" are those of device 0, and --outputs stacks them along a new leading dim.\n"
     "\nTrace\n"
     "  --trace FILE writes what each device did when in the Trace Event Format: a track per "
     "device,\n"
     "  an event per op with opcode, shape, source line and bytes, collectives with axes, groups,\n"
     "  bytes and the time waited, and a counter of the planned live bytes of each arena. Devices\n"
     "  that share a thread take turns.\n"
     "\nLimits\n"
     "  A run that does not fit into memory is refused before it starts, with the bytes needed.\n"
     "  A loop gives up when it provably never ends, and any work after --time-limit seconds.\n"
     "\nExamples\n"
     "  gspmd run model.hlo --inputs in.npz --outputs out.npz\n"
     "  gspmd run model.hlo --num-devices 8 --values uniform --seed 3 --json"},
    {"verify",
     "Runs a module on the mesh and on one device, and compares. Where the result is exact -\n"
     "only integer-preserving operations on integers within the type's range - it is compared\n"
     "bit for bit with plain reference kernels; otherwise with the same kernels on one device.\n"
     "Where results differ, the first op whose value the partitioned program computes otherwise "
     "is\n"
     "named, inside of loops too, or else the first pass behind the partitioner that is to blame.\n"
     "With --poison-absent a device that holds no part of a value gets NaN, the largest integer "
     "or\n"
     "the opposite truth value in its place: a program that reads a value where it is not then\n"
     "shows, instead of being right because a copy happened to lie there.",
     "Tolerance\n"
     "  Exact results, integers and pred have to be equal bit for bit; NaN equals NaN. Others:\n"
     "  |actual - expected| <= atol + rtol * |expected|, complex numbers part by part, where\n"
     "    rtol  f64 1e-12, f32 1e-5, f16 2e-3, bf16 2e-2, 8-bit floats 2^-(bits of mantissa)\n"
     "    atol  rtol * (largest finite magnitude in that result) + 8 * noise\n"
     "  The noise is measured: the distance between the one-device results of the fast and of the\n"
     "  reference kernels, and, where that is not enough, how far results move when every rounded\n"
     "  value of the one-device run is changed by up to two units of rounding (of the sum of the\n"
     "  magnitudes, where it is a sum). It is what other orders of summation and other fusions\n"
     "  may do to this result, and no more. --rtol and --atol replace all of this.\n"
     "\nJSON\n"
     "  {\"equal\": bool, \"exact\": bool, \"reference\": \"oracle\" or \"fast\", "
     "\"max_abs_error\": x,\n"
     "   \"max_rel_error\": x, \"first_difference\": {output, index, expected, actual} or null,\n"
     "   \"wrong_step\": {kind: op, pass or runtime, name; of an op: opcode, computation, "
     "iteration,\n"
     "   leaf, device, index, expected, actual, source} or null,\n"
     "   \"collectives\": [...], \"full_rematerializations\": [...],\n"
     "   \"evaluated\": [what runs element by element], \"peak_bytes_per_device\": n,\n"
     "   \"seconds\": {compile, run, reference}}\n"
     "\nExamples\n"
     "  gspmd verify model.hlo --num-devices 8\n"
     "  gspmd verify model.hlo --num-devices 4 --inputs in.npz --reference oracle --json"},
    {"explain",
     "Lists every collective of the partitioned program: its kind, how often it runs, what one\n"
     "device sends, over which mesh axes or groups of devices, and the instruction and source\n"
     "line that need it. Full rematerializations - values gathered whole for want of a better\n"
     "way - follow.",
     "JSON\n"
     "  {\"collectives\": [{\"kind\", \"count\", \"sites\", \"bytes\", \"groups\", \"op\", "
     "\"source\", \"axes\",\n"
     "    \"phase\", \"annotations\", \"evidence\", \"suggestion\"}],\n"
     "    \"full_rematerializations\": [{tensor, shape, from, to, op, source, avoid}]}; avoid\n"
     "  says which annotations, tried, would do without. evidence: without \"each\" annotation, "
     "or\n"
     "  without all \"together\", the collective was another one when tried; \"none\": they only\n"
     "  stand near it.\n"
     "  sites counts places in the program, count includes known trip counts of loops. bytes is\n"
     "  what one device sends in all, with groups of g, local operand L and result R: all-gather\n"
     "  R(g-1)/g, reduce-scatter L(g-1)/g, all-reduce 2L(g-1)/g, all-to-all L(g-1)/g, permute\n"
     "  and broadcast L.\n"
     "\nExamples\n"
     "  gspmd explain model.hlo --num-devices 8"},
    {"cost",
     "Estimates what one device does in one run of the partitioned program: floating-point\n"
     "operations, memory traffic, bytes sent, the peak of the memory plan and where it is, and\n"
     "the time on a device of the given rates.",
     "JSON\n"
     "  {\"flops_per_device\", \"memory_bytes_per_device\", \"collective_bytes_per_device\",\n"
     "   \"peak_bytes_per_device\", \"peak_op\", \"peak_tensors\", \"recomputations\", "
     "\"seconds\",\n"
     "   \"device\": {rates}, \"collectives\": [...]}\n"
     "\nExamples\n"
     "  gspmd cost model.hlo --num-devices 65536"},
    {"visualize",
     "Completes the shardings and draws which device has which part of the parameters and of the\n"
     "root, or of the instructions named: replicated and uneven parts, partial sums, manual\n"
     "regions, tuples leaf by leaf, a slice for each tile of the dims beyond two. What large "
     "meshes\n"
     "repeat is left out and counted.",
     "JSON\n"
     "  {\"tensors\": [{\"computation\", \"name\", \"shape\", \"sharding\", \"text\"}]}\n"
     "\nExamples\n"
     "  gspmd visualize model.hlo --tensor dot.3\n"
     "  gspmd visualize model.hlo --all --html model.html"},
    {"ops",
     "Lists the op table: each opcode, the sharding rule of a sample as factors, and the aspects\n"
     "that the library has for it.",
     "JSON\n"
     "  {\"ops\": [{\"name\", \"aspects\": [...], \"rule\"}]}\n"
     "  A rule ([i,k],[k,j])->([i,j]) names the loops of the op; reduction={k} are those summed."},
};

const VerbText& text_of(const std::string& verb) {
  for (const VerbText& text : kTexts)
    if (verb == text.name) return text;
  return kTexts[0];
}

constexpr const char* kExitCodes =
    "Exit codes\n"
    "  0  done; for verify: equal\n"
    "  1  verify found a difference, or the execution failed\n"
    "  2  the command line, the file or the module is wrong\n"
    "  Every error is one message on standard error.";

}  // namespace

std::string verb_description(const std::string& verb) { return text_of(verb).description; }

std::string verb_footer(const std::string& verb) {
  return std::string("\n") + text_of(verb).footer + "\n\n" + kExitCodes;
}

std::string command_description() {
  return "gspmd completes the shardings of HLO modules, partitions them for a mesh of devices, "
         "and\n"
         "runs them on a simulated one. FILE is HLO text as XLA, JAX and PyTorch/XLA print it;\n"
         "- reads standard input. `gspmd VERB --help` describes a verb with its options and JSON.";
}

std::string command_footer() { return std::string("\n") + kExitCodes; }

}  // namespace gspmd::tools
