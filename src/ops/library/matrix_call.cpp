#include "ops/library/matrix_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>

#include "gspmd/base/error.h"
#include "kernels/lapack.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/factors.h"
#include "ops/evaluate/evaluated_kernel.h"
#include "ops/library/library.h"
#include "ops/library/memory.h"
#include "ops/library/settings.h"

namespace gspmd::library {
namespace {

constexpr std::string_view kPrefix = "lapack_", kTyped = "_ffi", kLetters = "sdcz";
constexpr DType kMatrixTypes[] = {DType::f32, DType::f64, DType::c64, DType::c128};
constexpr DType kReals[] = {DType::f32, DType::f64, DType::f32, DType::f64};
constexpr DType kComplexes[] = {DType::c64, DType::c128, DType::c64, DType::c128};

// "T:mn" as its parts.
struct Argument {
  char type = 'T';
  std::string_view dims;
};

std::vector<Argument> arguments_of(std::string_view text) {
  std::vector<Argument> list;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    list.push_back({text[0], text.substr(2, end - 2)});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return list;
}

DType type_of(char letter, size_t kind) {
  if (letter == 'I') return DType::s32;
  if (letter == 'R') return kReals[kind];
  return letter == 'C' ? kComplexes[kind] : kMatrixTypes[kind];
}

struct Name {
  std::string_view routine;
  char letter = 0;  // 0: of none in particular
  bool typed = false;
};

Name name_of(std::string_view target) {
  if (!target.starts_with(kPrefix)) return {target, 0, false};
  target.remove_prefix(kPrefix.size());
  const bool typed = target.ends_with(kTyped);
  if (typed) target.remove_suffix(kTyped.size());
  if (target.size() < 2 || kLetters.find(target[0]) == std::string_view::npos) return {};
  return {target.substr(1), target[0], typed};
}

// Binds the letters of `argument` to the dims of `shape` behind the batch; what is wrong, or "".
std::string bind_sizes(MatrixCall& call, const Dims& batch, const Argument& argument,
                       const Shape& shape, const std::string& what) {
  const DType type = type_of(argument.type, call.kind);
  if (shape.is_tuple || shape.dtype != type ||
      shape.rank() != std::ssize(batch) + std::ssize(argument.dims) ||
      !std::equal(batch.begin(), batch.end(), shape.dims.begin()))
    return fmt::format("{} is {}; it is {} of {} dims behind the batch {}", what, to_string(shape),
                       dtype_name(type), argument.dims.size(), braces(batch));
  for (size_t i = 0; i < argument.dims.size(); ++i) {
    const int64_t size = shape.dims[batch.size() + i];
    const auto [found, fresh] = call.sizes.try_emplace(argument.dims[i], size);
    if (found->second != size)
      return fmt::format("{} is {}; dim {} has to be {}", what, to_string(shape), batch.size() + i,
                         found->second);
    if (size > std::numeric_limits<int32_t>::max() / 64)
      return fmt::format("{} is {}; LAPACK counts in 32 bits", what, to_string(shape));
  }
  if (argument.dims.size() == 2 &&
      std::min(shape.dims[batch.size()], shape.dims[batch.size() + 1]) > lapack::kMostRows)
    return fmt::format("{} is {}; matrices of at most {} rows or columns are factorized", what,
                       to_string(shape), lapack::kMostRows);
  return "";
}

std::string bind_operands(MatrixCall& call, const Node& node, const Name& name, Dims& batch) {
  const std::vector<Argument> list = arguments_of(call.routine->operands);
  const int64_t count = std::ssize(node.operands()), wanted = std::ssize(list);
  const int64_t first = name.letter != 0 && !name.typed ? count - wanted : 0;
  if (first < 0 || count < wanted || (name.letter == 0 && count != wanted))
    return fmt::format("it has {} operands; {} are arrays", count, wanted);
  for (int64_t i = 0; i < count; ++i)
    if ((i < first || i >= first + wanted) &&
        (node.operand(i)->shape.is_tuple || node.operand(i)->shape.elements_count() != 1))
      return fmt::format("operand {} is {}; numbers stand beside the arrays", i,
                         to_string(node.operand(i)->shape));
  const Shape& a = node.operand(first)->shape;
  const auto type = std::find(std::begin(kMatrixTypes), std::end(kMatrixTypes), a.dtype);
  if (a.is_tuple || type == std::end(kMatrixTypes) || a.rank() < std::ssize(list[0].dims))
    return fmt::format("operand {} is {}; it is {} dims of f32, f64, c64 or c128", first,
                       to_string(a), list[0].dims.size());
  call.kind = static_cast<size_t>(type - std::begin(kMatrixTypes));
  if ((name.letter != 0 && kLetters[call.kind] != name.letter) ||
      call.routine->kinds.find(kLetters[call.kind]) == std::string_view::npos)
    return fmt::format("operand {} is {}, which is not the element type of the routine", first,
                       to_string(a));
  batch.assign(a.dims.begin(), a.dims.end() - std::ssize(list[0].dims));
  call.batch = std::ssize(batch);
  for (int64_t i = 0; i < wanted; ++i) {
    call.operands.push_back(first + i);
    const std::string wrong =
        bind_sizes(call, batch, list[static_cast<size_t>(i)], node.operand(first + i)->shape,
                   fmt::format("operand {}", first + i));
    if (!wrong.empty()) return wrong;
  }
  if (call.sizes.contains('m') && call.sizes.contains('n'))
    call.sizes.try_emplace('k', std::min(call.sizes['m'], call.sizes['n']));
  if (call.sizes.contains('n')) call.sizes['h'] = std::max<int64_t>(call.sizes['n'] - 1, 0);
  return "";
}

std::string bind_results(MatrixCall& call, const Node& node, const Dims& batch) {
  const std::vector<Argument> list = arguments_of(call.routine->results);
  const std::vector<Shape> leaves = leaf_shapes(node.shape);
  const int64_t count = std::ssize(leaves), wanted = std::ssize(list);
  const int64_t first =
      count == wanted + call.routine->work_in_front ? call.routine->work_in_front : 0;
  if (count < wanted) return fmt::format("it has {} results of {}", count, wanted);
  for (int64_t i = 0; i < wanted; ++i) {
    call.results.push_back(first + i);
    const std::string wrong =
        bind_sizes(call, batch, list[static_cast<size_t>(i)],
                   leaves[static_cast<size_t>(first + i)], fmt::format("result {}", first + i));
    if (!wrong.empty()) return wrong;
  }
  return "";
}

FactorRule matrix_call_factors(const Node& node) {
  const MatrixCall call = matrix_call(node);
  if (!call.error.empty()) return whole_factors(node);
  std::vector<bool> operands(node.operands().size(), false);
  std::vector<bool> results(leaf_shapes(node.shape).size(), false);
  for (const int64_t i : call.operands) operands[static_cast<size_t>(i)] = true;
  for (const int64_t i : call.results) results[static_cast<size_t>(i)] = true;
  return batch_factors(node, call.batch, operands, results);
}

void fill_with_nan(const Array& memory) {
  if (is_integer(memory.dtype())) return;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t i = 0; i < memory.size(); ++i) {
    if (memory.dtype() == DType::c64)
      memory.data<std::complex<float>>()[static_cast<size_t>(i)] = static_cast<float>(kNan);
    else if (memory.dtype() == DType::c128)
      memory.data<std::complex<double>>()[static_cast<size_t>(i)] = kNan;
    else if (memory.dtype() == DType::f32)
      memory.data<float>()[static_cast<size_t>(i)] = static_cast<float>(kNan);
    else
      memory.data<double>()[static_cast<size_t>(i)] = kNan;
  }
}

Array part_of(const Array& memory, int64_t part, int64_t parts) {
  const int64_t size = memory.size() / parts;
  Array result(Shape(memory.dtype(), {size}));
  const auto bytes = static_cast<size_t>(size * dtype_size(memory.dtype()));
  std::memcpy(result.bytes().data(), memory.bytes().data() + static_cast<size_t>(part) * bytes,
              bytes);
  return result;
}

Dims layout_of(std::optional<Dims> stated, const Argument& argument, int64_t rank) {
  if (stated) return *std::move(stated);
  return argument.dims.size() == 2 ? column_major_layout(rank) : row_major_layout(rank);
}

// Where the batch dims do not lie in front, its matrices are no pieces of memory.
void check_layout(const MatrixCall& call, const Node& node, const Dims& layout) {
  for (int64_t d = 0; d < call.batch; ++d)
    if (layout[layout.size() - 1 - static_cast<size_t>(d)] != d)
      user_error(
          "custom-call: \"{}\" of target \"{}\" states the layout {}; batch dims lie outside",
          node.name(), *node.attrs.custom_call_target, layout_text(layout));
}

// All of a call in memory.
struct Buffers {
  std::vector<Array> operands, results;
};

// Runs each matrix of the batch.
void run_batch(const Node& node, const MatrixCall& call, std::span<const Value> values,
               const Buffers& buffers, int64_t count) {
  const std::vector<Argument> specs = arguments_of(call.routine->results);
  const bool tells = !specs.empty() && specs.back().type == 'I' && specs.back().dims.empty();
  MatrixItem item(node, call, values);
  for (int64_t i = 0; i < count; ++i) {
    item.in.clear();
    item.out.clear();
    item.in_bytes.clear();
    const auto piece = [&](const Array& memory) {
      return memory.bytes().data() + memory.size() / count * i * dtype_size(memory.dtype());
    };
    for (const Array& memory : buffers.operands) {
      item.in.push_back(piece(memory));
      item.in_bytes.push_back(memory.size() / count * dtype_size(memory.dtype()));
    }
    for (const Array& memory : buffers.results) item.out.push_back(piece(memory));
    const int info = call.routine->run[call.kind](item);
    if (tells) *item.result<int32_t>(specs.size() - 1) = info;
    if (info == 0 || (tells && info != lapack::kNotFinite)) continue;
    for (size_t r = 0; r < buffers.results.size(); ++r) {
      Array part = part_of(buffers.results[r], i, count);
      fill_with_nan(part);
      if (!is_integer(part.dtype()))
        std::memcpy(item.out[r], part.bytes().data(), part.bytes().size());
    }
  }
}

Value evaluate_matrix_call(const EvalContext& context) {
  const Node& node = context.node;
  const MatrixCall call = matrix_call(node);
  if (!call.error.empty())
    user_error("custom-call: \"{}\" of target \"{}\" cannot run: {}", node.name(),
               *node.attrs.custom_call_target, call.error);
  if (!lapack::is_there())
    user_error(
        "custom-call: \"{}\" of target \"{}\" cannot run: the library was built without LAPACK; "
        "install it (Debian: liblapack-dev) and build again",
        node.name(), *node.attrs.custom_call_target);
  const std::vector<Argument> operands = arguments_of(call.routine->operands);
  const std::vector<Argument> specs = arguments_of(call.routine->results);
  const std::vector<Shape> leaves = leaf_shapes(node.shape);
  Buffers buffers;
  int64_t count = 1;
  for (int64_t d = 0; d < call.batch; ++d) count *= node.operand(call.operands[0])->dim(d);
  for (size_t i = 0; i < operands.size(); ++i) {
    const Array& value = context.operands[static_cast<size_t>(call.operands[i])].array;
    const Dims layout =
        layout_of(stated_layout(node, call.operands[i]), operands[i], value.shape().rank());
    check_layout(call, node, layout);
    buffers.operands.push_back(to_memory(value, layout));
  }
  std::vector<Dims> layouts;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Shape& leaf = leaves[static_cast<size_t>(call.results[i])];
    layouts.push_back(
        layout_of(stated_result_layout(node, call.results[i]), specs[i], leaf.rank()));
    check_layout(call, node, layouts.back());
    buffers.results.emplace_back(Shape(leaf.dtype, {leaf.elements_count()}));
  }
  run_batch(node, call, context.operands, buffers, count);
  std::vector<Array> results;
  for (const Shape& leaf : leaves) results.emplace_back(Shape(leaf.dtype, leaf.dims));
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto leaf = static_cast<size_t>(call.results[i]);
    results[leaf] = from_memory(buffers.results[i], leaves[leaf], layouts[i]);
  }
  return pack(node.shape, results);
}

int64_t matrix_call_flops(const Node& node) {
  const MatrixCall call = matrix_call(node);
  if (!call.error.empty()) return 0;
  const Shape& a = node.operand(call.operands[0])->shape;
  int64_t longest = 1;
  for (const auto& [letter, size] : call.sizes) longest = std::max(longest, size);
  return saturating_multiply(a.elements_count(), longest);
}

const OpInfo kMatrixCallRow{.opcode = Opcode::custom_call,
                            .traits = kMadeAsOne,
                            .operands = {1, -1},
                            .infer =
                                [](const Node& node) {
                                  for (const Shape& leaf : leaf_shapes(node.shape))
                                    checked_size(node, leaf);
                                  return node.shape;
                                },
                            .factors = matrix_call_factors,
                            .evaluate = evaluate_matrix_call,
                            .completion = kBatchCompletion,
                            .on_part = constraints_on_part,
                            .lower = evaluated_kernel,  // LAPACK computes
                            .flops = matrix_call_flops,
                            .batch = batch_in_loop};

}  // namespace

void MatrixItem::copy(size_t operand, size_t result) const {
  std::memcpy(out[result], in[operand], static_cast<size_t>(in_bytes[operand]));
}

char MatrixItem::letter(std::string_view name, std::string_view allowed) const {
  const std::optional<int64_t> value = setting(node_, name);
  if (value && *value > 0 && *value < 128 &&
      allowed.find(static_cast<char>(*value)) != std::string_view::npos)
    return static_cast<char>(*value);
  user_error("custom-call: \"{}\" of target \"{}\": {} is {}; it is the code of one of {}",
             node_.name(), *node_.attrs.custom_call_target, name,
             value ? std::to_string(*value) : std::string("not in its backend_config"), allowed);
}

int64_t MatrixItem::number(std::string_view name, int64_t otherwise) const {
  return setting(node_, name).value_or(otherwise);
}

int64_t MatrixItem::argument(size_t i) const {
  if (i >= static_cast<size_t>(call_.operands[0]))
    user_error(
        "custom-call: \"{}\" of target \"{}\" has {} numbers in front of its arrays; number "
        "{} is missing",
        node_.name(), *node_.attrs.custom_call_target, call_.operands[0], i);
  return static_cast<int64_t>(values_[i].array.at(0));
}

const Array* MatrixItem::value(size_t i) const {
  return i < values_.size() ? &values_[i].array : nullptr;
}

const Routine* find_routine(std::string_view target) {
  const Name name = name_of(target);
  for (const auto list : {factor_routines(), spectral_routines()})
    for (const Routine& routine : list)
      if (routine.name == name.routine && routine.is_lapack == (name.letter != 0) &&
          (name.letter == 0 || routine.kinds.find(name.letter) != std::string_view::npos))
        return &routine;
  return nullptr;
}

MatrixCall matrix_call(const Node& node) {
  MatrixCall call;
  call.routine = find_routine(*node.attrs.custom_call_target);
  if (call.routine == nullptr) {
    call.error = "its target is not known";
    return call;
  }
  const Name name = name_of(*node.attrs.custom_call_target);
  call.typed = name.typed;
  Dims batch;
  call.error = bind_operands(call, node, name, batch);
  if (call.error.empty()) call.error = bind_results(call, node, batch);
  return call;
}

const OpInfo* matrix_row(const Node& custom_call) {
  const Routine* const routine = find_routine(*custom_call.attrs.custom_call_target);
  if (routine == nullptr) return nullptr;
  if (!routine->as_custom_call) return &kMatrixCallRow;
  static const OpInfo row = [] {
    OpInfo info = kMatrixCallRow;
    info.completion = op_info(Opcode::custom_call).completion;
    return info;
  }();
  return &row;
}

}  // namespace gspmd::library
