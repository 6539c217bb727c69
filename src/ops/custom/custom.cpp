#include "ops/custom/custom.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "gspmd/base/error.h"
#include "gspmd/ops/custom_calls.h"
#include "gspmd/ops/custom_ops.h"
#include "ir/lexer.h"
#include "ops/common/batch.h"

namespace gspmd {
namespace {

struct Entry {
  CustomOpRow row;
  OpInfo info;
};

// Rows stay for good: nodes and programs may outlive whoever added them.
struct CallTable {
  std::shared_mutex mutex;
  std::map<std::string, std::unique_ptr<Entry>, std::less<>> entries;
  std::atomic<bool> any = false;
};

CallTable& table() {
  static CallTable& table = *new CallTable;
  return table;
}

const Entry* find(std::string_view target) {
  CallTable& t = table();
  if (!t.any.load(std::memory_order_acquire)) return nullptr;
  const std::shared_lock lock(t.mutex);
  const auto found = t.entries.find(target);
  return found == t.entries.end() ? nullptr : found->second.get();
}

const CustomOpRow& row_of(const Node& node) {
  const Entry* const entry = find(*node.attrs.custom_call_target);
  if (entry == nullptr) internal_error("{} has no row", node.name());
  return entry->row;
}

// What the rows have in common: each aspect looks up the one of its target.
OpInfo info_of(const CustomOpRow& row) {
  OpInfo info{
      .opcode = Opcode::custom_call,
      .traits = kMadeAsOne,
      .operands = {1, -1},
      .infer = [](const Node& node) { return row_of(node).infer(node); },
      .factors = [](const Node& node) { return row_of(node).factors(node); },
      .evaluate = [](const EvalContext& context) { return row_of(context.node).evaluate(context); },
      .leaf_gradient =
          [](Node& node, const std::vector<Node*>& cotangents) {
            return row_of(node).gradient(node, cotangents);
          },
      .completion = {.speakers = Speakers::all, .operands_confer = true},
      .batch = batch_in_loop};
  if (row.lower) info.lower = [](const Node& node) { return row_of(node).lower(node); };
  if (row.flops) info.flops = [](const Node& node) { return row_of(node).flops(node); };
  return info;
}

}  // namespace

void add_custom_op(CustomOpRow row) {
  if (row.target.empty()) user_error("register_op: the op has no name");
  Module scratch("scratch");
  Attributes attrs;
  attrs.custom_call_target = row.target;
  Computation* const c = scratch.add_computation("main");
  const Node* const call = c->append(Opcode::custom_call, Shape(DType::f32, {}), {}, attrs);
  if (find(row.target) == nullptr && is_known_call(*call))
    user_error("register_op: \"{}\" is a custom-call of the library; give another name",
               row.target);
  CallTable& t = table();
  const std::unique_lock lock(t.mutex);
  if (t.entries.contains(row.target))
    user_error("register_op: there is an op \"{}\" already; give another name", row.target);
  auto entry = std::make_unique<Entry>(Entry{std::move(row), {}});
  entry->info = info_of(entry->row);
  std::string target = entry->row.target;
  t.entries.emplace(std::move(target), std::move(entry));
  t.any.store(true, std::memory_order_release);
}

const CustomOpRow* find_custom_op(std::string_view target) {
  const Entry* const entry = find(target);
  return entry == nullptr ? nullptr : &entry->row;
}

std::vector<std::string> custom_op_names() {
  CallTable& t = table();
  const std::shared_lock lock(t.mutex);
  std::vector<std::string> names;
  for (const auto& [name, entry] : t.entries) names.push_back(name);
  return names;
}

const OpInfo* custom_op_info(const Node& custom_call) {
  const Entry* const entry = find(*custom_call.attrs.custom_call_target);
  return entry == nullptr ? nullptr : &entry->info;
}

std::string custom_config(const Node& custom_call) {
  const auto found = custom_call.attrs.other.find("backend_config");
  if (found == custom_call.attrs.other.end()) return {};
  if (found->second.empty() || found->second[0] != '"') return found->second;  // JSON, as it stands
  Lexer lexer(found->second, "backend_config");
  return lexer.quoted("backend_config");
}

void set_custom_config(Attributes& attrs, const std::string& text) {
  if (!text.empty()) attrs.other["backend_config"] = quote(text);
}

}  // namespace gspmd
