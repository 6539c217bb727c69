// What a function says of its results.
#include <algorithm>
#include <charconv>

#include "stablehlo/annotations.h"
#include "stablehlo/lowering.h"
#include "stablehlo/print/writer.h"

namespace gspmd::stablehlo {
namespace {

// The module keeps the attributes of a function's result under this, the computation's name, the
// result's number and the attribute's own name, with dots between them.
constexpr std::string_view kOfResults = "mlir.result.";

// Whether a result can say it: others of its attributes stand for something else.
bool can_be_said(std::string_view name, const std::string& value) {
  return !name.empty() && name != "sdy.sharding" && name != "mhlo.sharding" &&
         name != "mhlo.frontend_attributes" && (value == "unit" || whole_attribute_text(value));
}

// The text has no tuples: an element of one is the value that was put in.
constexpr int kMostTuples = 64;

const Node& behind_tuples(const Node& node) {
  const Node* at = &node;
  for (int i = 0; i < kMostTuples; ++i) {
    if (!at->is(Opcode::get_tuple_element) || !at->operand(0)->is(Opcode::tuple)) break;
    at = at->operand(0)->operand(at->attrs.index);
  }
  return *at;
}

// Elements of tuples have no sharding of their own in the text, but where there is only one.
std::optional<Sharding> sharding_in_text(const Node& node) {
  const Node& value = behind_tuples(node);
  if (!value.is(Opcode::get_tuple_element)) return value.sharding;
  const std::optional<Sharding>& all = value.operand(0)->sharding;
  if (!all || !all->is_tuple() || all->elements().size() != 1) return std::nullopt;
  return all->elements()[0];
}

// Whether the function's results are all that reads the value, through so many tuples at most.
bool is_only_returned(const Node& node, int tuples) {
  if (node.users().empty()) return node.is_root();
  return std::all_of(node.users().begin(), node.users().end(), [&](const Node* user) {
    if (!user->is(Opcode::tuple)) return false;
    if (user->is_root()) return true;
    bool is_read = false;  // an element that nobody takes out is not returned
    for (const Node* element : user->users()) {
      if (!element->is(Opcode::get_tuple_element)) return false;
      if (user->operand(element->attrs.index) != &node) continue;
      if (tuples == 0 || !is_only_returned(*element, tuples - 1)) return false;
      is_read = true;
    }
    return is_read;
  });
}

}  // namespace

bool is_result_sharding(const Node& node) {
  if (!node.is(Opcode::custom_call)) return false;
  const std::string& target = node.attrs.custom_call_target;
  if (!is_only_returned(node, kMostTuples)) return false;
  if (target == kSdyResultTarget) return true;
  const Node& root = *node.parent().root();
  const std::optional<Sharding> own = sharding_in_text(*node.operand(0));
  // A group is of an instruction: what a parameter has of one is an instruction in the text too.
  return target == "Sharding" && node.sharding && node.sharding->shard_group() == 0 &&
         !(own && *own == *node.sharding) && node.frontend_attributes.empty() &&
         node.attrs.other.empty() && (&root == &node || !root.sharding);
}

size_t result_count(const Computation& function) {
  const Shape& shape = function.root()->shape;
  return shape.is_tuple ? shape.elements.size() : 1;
}

bool Writer::is_said_by_result(const std::string& name, const std::string& value) const {
  if (!name.starts_with(kOfResults)) return false;
  const std::string_view tail = std::string_view(name).substr(kOfResults.size());
  for (size_t dot = tail.find('.'); dot != std::string_view::npos; dot = tail.find('.', dot + 1)) {
    const auto function = result_counts_.find(tail.substr(0, dot));
    if (function == result_counts_.end()) continue;
    const std::string_view behind = tail.substr(dot + 1);
    size_t index = 0;
    const auto [end, error] = std::from_chars(behind.data(), behind.data() + behind.size(), index);
    const auto digits = static_cast<size_t>(end - behind.data());
    if (error == std::errc{} && digits < behind.size() && behind[digits] == '.' &&
        std::to_string(index) == behind.substr(0, digits) && index < function->second)
      return can_be_said(behind.substr(digits + 1), value);
  }
  return false;
}

std::string Writer::result_attributes(const Computation& computation, size_t index) {
  const Node* result = computation.root();
  if (result->is(Opcode::tuple)) result = result->operands()[index];
  result = &behind_tuples(*result);
  Fields fields;
  const bool said = is_result_sharding(*result) && (result->sharding || says_in_sdy(*result));
  if (is_result_sharding(*result)) {
    Fields frontend;
    if (result->sharding && !says_in_sdy(*result))
      fields.emplace_back("mhlo.sharding", quote(to_string(*result->sharding)));
    for (const auto& [name, value] : result->frontend_attributes) {
      if (name == kImplicit || name == kCaptures || name == kRemoved) continue;
      if (name == kXlaSdySharding)
        add_attribute("sdy.sharding", name, of_one_value(value), fields, frontend);
      else
        frontend.emplace_back(name, quote(value));
    }
    if (!frontend.empty())
      fields.emplace_back("mhlo.frontend_attributes", "{" + fields_text(std::move(frontend)) + "}");
  }
  const Node& root = *computation.root();
  if (root.is(Opcode::tuple) && root.sharding && root.sharding->is_tuple() && !said) {
    const auto first = static_cast<size_t>(first_leaf(root.shape, static_cast<int64_t>(index)));
    const Shape& shape = root.shape.elements[index];
    const std::vector<Sharding>& all = root.sharding->elements();
    const Sharding own =
        shape.is_tuple
            ? Sharding::tuple({all.begin() + static_cast<std::ptrdiff_t>(first),
                               all.begin() + static_cast<std::ptrdiff_t>(
                                                 first + static_cast<size_t>(leaf_count(shape)))})
            : all.at(first);
    fields.emplace_back("mhlo.sharding", quote(to_string(own)));
  }
  const std::string prefix = fmt::format("{}{}.{}.", kOfResults, computation.name(), index);
  const auto& all = module_.frontend_attributes;  // sorted
  for (auto at = all.lower_bound(prefix); at != all.end() && at->first.starts_with(prefix); ++at)
    if (const std::string_view own = std::string_view(at->first).substr(prefix.size());
        can_be_said(own, at->second)) {
      Fields left;  // none: it is an attribute
      add_attribute(own, at->first, at->second, fields, left);
    }
  return fields.empty() ? "" : " {" + fields_text(std::move(fields)) + "}";
}

}  // namespace gspmd::stablehlo
