#include "stablehlo/annotations.h"

#include <algorithm>
#include <charconv>

#include "ir/sharding_text.h"

namespace gspmd::stablehlo {
namespace {

// Attributes that say nothing to HLO: of debuggers, and what the reader of HLO finds out itself.
constexpr std::string_view kPassedOver[] = {
    "sdy.sharding_origins",
    "sdy.propagation_edges",
    "sdy.original_func_name",
    "mhlo.version",
    "xla_shape",
};

bool is_passed_over(std::string_view name) {
  return name.starts_with("sdy.block_arg_") || name.starts_with("sdy.result_") ||
         std::find(std::begin(kPassedOver), std::end(kPassedOver), name) != std::end(kPassedOver);
}

// What is written at a custom-call of XLA keeps the name that XLA reads.
bool is_read_by_xla(const Node& node) {
  if (!node.is(Opcode::custom_call)) return false;
  const std::string& target = node.attrs.custom_call_target;
  return target == "Sharding" || target == kSdyResultTarget;
}

}  // namespace

std::string_view name_in_text(const Node& node, const std::string& name, const std::string& value) {
  const bool is_parameter = node.is(Opcode::parameter);
  if (is_parameter && name == kXlaSdySharding) return "sdy.sharding";
  if (!is_parameter && name == kSdyRule) return "sdy.sharding_rule";
  if (!is_parameter && name == kSdySharding && !is_read_by_xla(node) && per_value(value) == value)
    return "sdy.sharding";
  if (!name.starts_with(kKept)) return {};
  const std::string_view own = std::string_view(name).substr(kKept.size());
  // What stands for something else under these names.
  if (own == "sdy.sharding" || own == "mhlo.sharding" || own == "mhlo.frontend_attributes")
    return {};
  if (is_parameter) return own == "tf.aliasing_output" || own == "jax.buffer_donor" ? "" : own;
  return is_passed_over(own) || own == "sdy.sharding_rule" ? "" : own;
}

std::string per_value(const std::string& sharding) {
  constexpr std::string_view kName = "#sdy.sharding";
  if (!sharding.starts_with("#sdy.sharding<")) return sharding;
  return "#sdy.sharding_per_value<[" + sharding.substr(kName.size()) + "]>";
}

std::string of_one_value(const std::string& per_value) {
  constexpr std::string_view kList = "#sdy.sharding_per_value<[";
  if (!per_value.starts_with(kList) || !per_value.ends_with("]>")) return per_value;
  return "#sdy.sharding" + per_value.substr(kList.size(), per_value.size() - kList.size() - 2);
}

bool says_in_sdy(const Node& node) {
  return node.frontend_attributes.contains(kXlaSdySharding) ||
         node.frontend_attributes.contains(kSdySharding);
}

Sharding sharding_of_text(const ModuleLowering& lowering, const Attribute& attribute,
                          const Shape& shape) {
  if (attribute.kind != AttributeKind::string)
    lowering.cursor().fail(attribute.position, "mhlo.sharding is a string");
  try {
    // One result of several has a list of one.
    if (!shape.is_tuple && attribute.text.starts_with("{{"))
      return sharding_of(attribute.text, Shape::tuple({shape})).elements()[0];
    return sharding_of(attribute.text, shape);
  } catch (const ShardingTextError& error) {
    lowering.cursor().fail(attribute.position, "mhlo.sharding: {}", error.message);
  } catch (const UserError& error) {
    lowering.cursor().fail(attribute.position, "mhlo.sharding: {}", error.what());
  }
}

size_t captures_of(const Node& loop) {
  const auto found = loop.frontend_attributes.find(kCaptures);
  if (found == loop.frontend_attributes.end() || !loop.is(Opcode::while_)) return 0;
  size_t count = 0;
  const std::string& text = found->second;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count < loop.shape.elements.size() ? count : 0;
}

std::string sharding_text_of(const Node& node) {
  if (!node.sharding->is_tuple()) return to_string(*node.sharding);
  std::vector<Sharding> leaves = node.sharding->elements();
  for (size_t i = 0, captures = captures_of(node); i < captures; ++i)
    leaves.resize(leaves.size() - static_cast<size_t>(leaf_count(node.shape.elements.rbegin()[i])));
  return to_string(leaves.size() == 1 ? leaves[0] : Sharding::tuple(std::move(leaves)));
}

namespace {

// The text says nothing of values around a loop that the loop only reads: they are manual with all
// others, or are held as they are.
Sharding sharding_of_node(const ModuleLowering& lowering, const Attribute& attribute,
                          const Node& node) {
  const size_t captures = captures_of(node);
  if (captures == 0) return sharding_of_text(lowering, attribute, node.shape);
  Shape results = node.shape;
  results.elements.resize(results.elements.size() - captures);
  std::vector<Sharding> leaves = sharding_of_text(lowering, attribute, results).elements();
  const bool all_manual =
      std::all_of(leaves.begin(), leaves.end(), [](const Sharding& s) { return s.is_manual(); });
  for (size_t i = results.elements.size(); i < node.shape.elements.size(); ++i) {
    const Node& value = *node.operand(0)->operand(static_cast<int64_t>(i));
    if (!all_manual && value.sharding && !value.sharding->is_tuple() && !value.shape.is_tuple)
      leaves.push_back(*value.sharding);
    else
      leaves.resize(leaves.size() + static_cast<size_t>(leaf_count(value.shape)),
                    all_manual ? Sharding::manual() : Sharding::unknown());
  }
  return Sharding::tuple(std::move(leaves));
}

}  // namespace

void add_frontend_attributes(ModuleLowering& lowering, const Attribute& attribute,
                             std::map<std::string, std::string>& into) {
  if (attribute.kind != AttributeKind::dictionary)
    lowering.cursor().fail(attribute.position,
                           "mhlo.frontend_attributes is a dictionary of strings");
  for (const NamedAttribute& entry : attribute.entries)
    into[std::string(entry.name)] = entry.value.kind == AttributeKind::string
                                        ? entry.value.text
                                        : lowering.text_of(entry.value);
}

namespace {

// Those that HLO has fields for: "gspmd.phase", and attributes of the instruction, "hlo.x".
void move_to_fields(Node& node) {
  if (node.frontend_attributes.empty()) return;
  auto& attributes = node.frontend_attributes.edit();
  if (const auto phase = attributes.extract("gspmd.phase"); !phase.empty())
    node.backward = phase.mapped() == "backward";
  for (auto at = attributes.begin(); at != attributes.end();) {
    if (!at->first.starts_with(kInstruction)) {
      ++at;
      continue;
    }
    node.attrs.other[at->first.substr(kInstruction.size())] = at->second;
    at = attributes.erase(at);
  }
}

}  // namespace

void annotate(OpLowering& op, Node& node) {
  ModuleLowering& lowering = op.lowering();
  for (const NamedAttribute& named : op.op().attributes) {
    if (named.used) continue;
    const std::string_view name = named.name;
    if (is_passed_over(name)) {
      named.used = true;
    } else if (name == "mhlo.sharding") {
      node.sharding = sharding_of_node(lowering, named.value, node);
    } else if (name == "mhlo.frontend_attributes") {
      add_frontend_attributes(lowering, named.value, node.frontend_attributes.edit());
      move_to_fields(node);
    } else if (name == "sdy.sharding") {
      node.frontend_attributes[is_read_by_xla(node) ? kXlaSdySharding : kSdySharding] =
          per_value(lowering.text_of(named.value));
    } else if (name == "sdy.sharding_rule") {
      node.frontend_attributes[kSdyRule] = lowering.text_of(named.value);
    } else if (named.is_property && name.find('.') == std::string_view::npos) {
      continue;  // one of its own, refused below
    } else {
      node.frontend_attributes[fmt::format("{}{}", kKept, name)] = lowering.text_of(named.value);
    }
    named.used = true;
  }
}

void refuse_unread(OpLowering& op) {
  const auto& ignored = op.op().row->ignored;
  for (const NamedAttribute& named : op.op().attributes) {
    if (named.used || !named.is_property) continue;
    if (std::find(ignored.begin(), ignored.end(), named.name) != ignored.end()) continue;
    op.lowering().cursor().fail(named.position, "{}: it has no attribute {}", op.op().name,
                                named.name);
  }
}

}  // namespace gspmd::stablehlo
