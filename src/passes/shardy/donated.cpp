#include <algorithm>

#include "ir/leaf_path.h"
#include "passes/shardy/prepare.h"

// Arguments whose storage results take over.

namespace gspmd {
namespace {

SdySlot& slot_at(SdyProgram& program, int64_t index) {
  return program.slots.at(static_cast<size_t>(index));
}

bool is_silent_about(const std::optional<SdySharding>& sharding) {
  return !sharding || says_nothing(*sharding);
}

// Whether what was given is `wanted` where it is closed, and may grow to it where it is open.
bool may_become(const std::optional<SdySharding>& given, const SdySharding& wanted) {
  if (!given) return true;
  if (given->mesh != wanted.mesh || given->dims.size() != wanted.dims.size() ||
      !given->unreduced.empty() || !given->replicated.empty())
    return false;
  for (size_t d = 0; d < wanted.dims.size(); ++d) {
    const SdyAxes &own = given->dims[d].axes, &other = wanted.dims[d].axes;
    if (own.size() > other.size() || (!given->dims[d].open && own.size() != other.size()) ||
        !std::equal(own.begin(), own.end(), other.begin()))
      return false;
  }
  return true;
}

// `to` is laid out as `from`, which stays.
bool take_over(SdyProgram& program, int64_t to, int64_t from,
               const std::optional<SdySharding>& given) {
  const std::optional<SdySharding>& wanted = slot_at(program, from).sharding;
  SdySlot& slot = slot_at(program, to);
  if (!wanted) {
    if (given && !says_nothing(*given)) return false;
    slot.sharding.reset();
    return true;
  }
  if (!may_become(given, *wanted)) return false;
  note_taken(slot, *wanted, [&](size_t, const SdyAxis&) { return from; });
  slot.sharding = wanted;
  return true;
}

const SdyFunction* main_of(const SdyProgram& program) {
  const auto main = std::find_if(program.functions.begin(), program.functions.end(),
                                 [](const SdyFunction& function) { return function.is_main; });
  return main == program.functions.end() ? nullptr : &*main;
}

}  // namespace

std::vector<SdyDonated> share_donated(const Module& module, SdyProgram& program) {
  std::vector<SdyDonated> pairs;
  const SdyFunction* const main = main_of(program);
  if (main == nullptr) return pairs;
  const Computation& entry = *main->computation;
  std::vector<int64_t> first;
  int64_t arguments = 0;
  for (const Node* parameter : entry.parameters()) {
    first.push_back(arguments);
    arguments += leaf_count(parameter->shape);
  }
  for (const Alias& alias : module.aliases) {
    const auto number = static_cast<size_t>(alias.parameter);
    const auto argument = static_cast<size_t>(
        first.at(number) +
        leaves_at(entry.parameters()[number]->shape, alias.parameter_index).first);
    const auto result = static_cast<size_t>(leaves_at(entry.root()->shape, alias.output).first);
    if (output_shape(module, alias)->is_tuple || argument >= main->arguments.size() ||
        result >= main->results.size())
      continue;
    SdyDonated& pair = pairs.emplace_back();
    pair.argument = main->arguments[argument];
    pair.result = main->results[result].result;
    pair.given_argument = slot_at(program, pair.argument).sharding;
    pair.given_result = slot_at(program, pair.result).sharding;
    if (is_silent_about(pair.given_argument) && !is_silent_about(pair.given_result))
      take_over(program, pair.argument, pair.result, pair.given_argument);
    else if (is_silent_about(pair.given_result) && !is_silent_about(pair.given_argument))
      take_over(program, pair.result, pair.argument, pair.given_result);
  }
  return pairs;
}

void agree_donated(SdyProgram& program, const std::vector<SdyDonated>& pairs) {
  for (const SdyDonated& pair : pairs) {
    const std::optional<SdySharding>& argument = slot_at(program, pair.argument).sharding;
    const std::optional<SdySharding>& result = slot_at(program, pair.result).sharding;
    if (argument == result) continue;
    // Where both may change, neither gives up that it is split.
    const bool argument_splits = argument && !argument->splits_nothing();
    if (!argument_splits && take_over(program, pair.argument, pair.result, pair.given_argument))
      continue;
    if (!take_over(program, pair.result, pair.argument, pair.given_result))
      take_over(program, pair.argument, pair.result, pair.given_argument);
  }
}

}  // namespace gspmd
