#include "passes/differentiate/markers.h"

#include <algorithm>
#include <sstream>

#include "gspmd/base/error.h"
#include "gspmd/ir/effects.h"
#include "gspmd/ir/op.h"
#include "gspmd/ops/builders.h"
#include "gspmd/passes/differentiate/differentiate.h"
#include "ops/common/gradient.h"
#include "passes/differentiate/forward.h"
#include "passes/differentiate/residuals.h"

namespace gspmd {
namespace {

std::string marker_attribute(const Node& node, const char* name) {
  const auto found = node.frontend_attributes.find(name);
  return found == node.frontend_attributes.end() ? "" : found->second;
}

size_t number(const Node& node, const char* name) {
  return static_cast<size_t>(std::stoll(marker_attribute(node, name)));
}

// A product of two arrays, summed over loops that both have.
bool is_contraction(const Node& node) {
  if (node.op().factors == nullptr || node.operands().size() < 2 || node.shape.is_tuple)
    return false;
  const FactorRule rule = node.op().factors(node);
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::reduction) continue;
    size_t readers = 0;
    for (const std::vector<int64_t>& dims : rule.operands)
      readers += std::count(dims.begin(), dims.end(), static_cast<int64_t>(f)) > 0 ? 1 : 0;
    if (readers > 1) return true;
  }
  return false;
}

// "layers/3/attention" is called "attention".
bool is_called(const Node& node, const std::string& name) {
  const std::string& full = node.metadata.op_name;
  return full == name ||
         (full.size() > name.size() &&
          full.compare(full.size() - name.size() - 1, std::string::npos, "/" + name) == 0);
}

}  // namespace

Marker marker_of(const Node& node) {
  const std::string& target = node.attrs.custom_call_target;
  if (target.empty()) return Marker::none;
  if (target == kCheckpointCall) return Marker::checkpoint;
  if (target == kCustomVjpCall) return Marker::custom_vjp;
  return target == kCustomJvpCall ? Marker::custom_jvp : Marker::none;
}

bool saves_everything(const Node& checkpoint) {
  return marker_attribute(checkpoint, kSaves) == "everything";
}

bool is_saved(const Node& checkpoint, const Node& value) {
  if (value.shape.is_tuple) return false;
  const std::string saves = marker_attribute(checkpoint, kSaves);
  if (saves == "dots") return is_contraction(value);
  std::istringstream names(marker_attribute(checkpoint, kSavedNames));
  for (std::string name; std::getline(names, name, ',');)
    if (is_called(value, name)) return true;
  return false;
}

MarkerOperands operands_of(const Node& marker) {
  MarkerOperands result;
  const std::vector<Node*>& all = marker.operands();
  auto next = all.begin() + static_cast<std::ptrdiff_t>(number(marker, kArguments));
  result.arguments.assign(all.begin(), next);
  const size_t results = marker.shape.elements.size();
  const size_t arguments = result.arguments.size();
  for (size_t k = 0; k < marker.called.size(); ++k) {
    size_t own = arguments;
    if (k == 1 && marker_of(marker) == Marker::custom_jvp) own = 2 * arguments;
    if (k == 2) own = number(marker, kResiduals) + results;
    const auto end =
        next + static_cast<std::ptrdiff_t>(marker.called[k]->parameters().size() - own);
    result.captured.emplace_back(next, end);
    next = end;
  }
  return result;
}

namespace {

void mark_backward(const Computation& c, size_t first) {
  for (size_t i = first; i < c.nodes().size(); ++i) c.nodes()[i]->backward = true;
}

std::vector<Node*> call_inline(Computation& c, const Computation& called, std::vector<Node*> own,
                               const std::vector<Node*>& captured, bool backward = false) {
  own.insert(own.end(), captured.begin(), captured.end());
  const size_t first = c.nodes().size();
  const std::vector<Node*> results = inline_computation(called, c, own)->operands();
  if (backward) mark_backward(c, first);
  return results;
}

void check_captured(const Node& marker, const MarkerOperands& operands, const Activity& activity) {
  for (const std::vector<Node*>& captured : operands.captured)
    for (const Node* node : captured)
      if (activity.of(node))
        user_error(
            "{}: the function reads {} from around it, on which the derivative depends and its "
            "rule does not say how; pass it as an argument",
            *marker.attrs.custom_call_target, described(*node));
}

std::vector<Node*> or_zeros(const std::vector<Node*>& given, const std::vector<Node*>& like) {
  std::vector<Node*> all;
  for (size_t i = 0; i < like.size(); ++i)
    all.push_back(given[i] != nullptr ? given[i] : zeros_like(*like[i]));
  return all;
}

}  // namespace

// The backward part makes again what the policy does not keep, from values behind a barrier: they
// are ready when the cotangents are, and not the ones of the forward part.
void Reverse::visit_checkpoint(Node& marker, const std::vector<Node*>& cotangents) {
  std::vector<size_t> wanted, given;
  for (size_t i = 0; i < marker.operands().size(); ++i)
    if (activity_.of(marker.operands()[i])) wanted.push_back(i);
  for (size_t i = 0; i < cotangents.size(); ++i)
    if (cotangents[i] != nullptr) given.push_back(i);
  const PulledBack body = pull_back_body(*marker.called.at(0), wanted, given);
  const Residuals residuals =
      residuals_of(body, std::vector<bool>(marker.operands().size(), true), true,
                   [&](const Node& value) { return is_saved(marker, value); });
  std::vector<Node*> values;
  for (const size_t i : residuals.parameters) values.push_back(marker.operands()[i]);
  if (!residuals.kept.empty()) {
    const EmissionScope scope(marker.metadata, marker.backward);
    const size_t first = c_.nodes().size();
    Computation* const keeping = c_.module().add_computation(marker.called[0]->name());
    Twins twins;
    for (const Node* parameter : body.form.parameters)
      twins.emplace(parameter, add_parameter(*keeping, parameter->shape, parameter->name()));
    std::vector<Node*> roots = body.form.results;
    roots.insert(roots.end(), residuals.kept.begin(), residuals.kept.end());
    std::vector<Node*> all = roots;
    add_effects(*body.form.computation, all);
    copy_needed(all, *keeping, twins);
    for (Node*& root : roots) root = twins.at(root);
    keeping->set_root(hlo::tuple(*keeping, std::move(roots)));
    Node* const kept = emit(c_, marker.opcode(), marker.operands(), marker.attrs,
                            keeping->root()->shape, {keeping});
    kept->frontend_attributes = marker.frontend_attributes;
    for (size_t i = 0; i < residuals.kept.size(); ++i)
      values.push_back(
          hlo::get_tuple_element(kept, static_cast<int64_t>(body.form.results.size() + i)));
    replace(marker, kept, 0);
    take_forward(first);
  }
  for (const size_t i : given) values.push_back(cotangents[i]);
  values = hlo::optimization_barrier(values);
  Twins twins;
  size_t next = 0;
  for (const size_t i : residuals.parameters)
    twins.emplace(body.form.parameters[i], values[next++]);
  for (const Node* value : residuals.kept) twins.emplace(value, values[next++]);
  for (const Node* cotangent : body.cotangents) twins.emplace(cotangent, values[next++]);
  const size_t first = c_.nodes().size();
  copy_needed(body.gradients, c_, twins);
  if (backward_) mark_backward(c_, first);
  for (size_t i = 0; i < wanted.size(); ++i)
    give(*marker.operands()[wanted[i]], 0, twins.at(body.gradients[i]));
  c_.module().remove_computation(body.form.computation);
}

void Reverse::visit_custom_vjp(Node& marker, const std::vector<Node*>& cotangents) {
  const MarkerOperands operands = operands_of(marker);
  check_captured(marker, operands, activity_);
  std::vector<Node*> outputs;
  const auto results = static_cast<std::ptrdiff_t>(marker.shape.elements.size());
  {
    const EmissionScope scope(marker.metadata, marker.backward);
    const size_t first = c_.nodes().size();
    outputs = call_inline(c_, *marker.called.at(1), operands.arguments, operands.captured[1]);
    replace(marker, hlo::tuple(c_, {outputs.begin(), outputs.begin() + results}), 0);
    take_forward(first);
  }
  std::vector<Node*> own(outputs.begin() + results, outputs.end());
  const std::vector<Node*> given =
      or_zeros(cotangents, {outputs.begin(), outputs.begin() + results});
  own.insert(own.end(), given.begin(), given.end());
  give_operands(marker, call_inline(c_, *marker.called.at(2), std::move(own), operands.captured[2],
                                    backward_));
}

// The rule's tangents are linear in those of the arguments: they are transposed.
void Reverse::visit_custom_jvp(Node& marker, const std::vector<Node*>& cotangents) {
  const MarkerOperands operands = operands_of(marker);
  check_captured(marker, operands, activity_);
  const size_t first = c_.nodes().size();
  std::vector<Node*> stand_ins;
  for (const Node* argument : operands.arguments) stand_ins.push_back(zeros_like(*argument));
  std::vector<Node*> own = operands.arguments;
  own.insert(own.end(), stand_ins.begin(), stand_ins.end());
  const std::vector<Node*> outputs =
      call_inline(c_, *marker.called.at(1), std::move(own), operands.captured[1]);
  std::vector<Seed> seeds;
  std::vector<Node*> inputs;
  for (size_t i = 0; i < cotangents.size(); ++i)
    if (cotangents[i] != nullptr)
      seeds.push_back({outputs[marker.shape.elements.size() + i], cotangents[i]});
  for (Node* stand_in : stand_ins)
    if (has_derivative(stand_in->shape.dtype)) inputs.push_back(stand_in);
  const std::vector<Node*> found = Reverse(c_, std::move(seeds), inputs, first, backward_).run();
  size_t next = 0;
  for (size_t i = 0; i < stand_ins.size(); ++i) {
    if (!has_derivative(stand_ins[i]->shape.dtype)) continue;
    if (Node* const cotangent = found[next++]) give(*operands.arguments[i], 0, cotangent);
  }
}

std::vector<Node*> Forward::push_custom_jvp(Node& marker) {
  const MarkerOperands operands = operands_of(marker);
  check_captured(marker, operands, activity_);
  std::vector<Node*> own = operands.arguments;
  const std::vector<Node*> tangents = or_zeros(tangents_of_operands(marker), operands.arguments);
  own.insert(own.end(), tangents.begin(), tangents.end());
  const std::vector<Node*> outputs =
      call_inline(c_, *marker.called.at(1), std::move(own), operands.captured[1]);
  return {outputs.begin() + static_cast<std::ptrdiff_t>(marker.shape.elements.size()),
          outputs.end()};
}

std::vector<Node*> Forward::gradient_of_custom_vjp(Node& marker,
                                                   const std::vector<Node*>& cotangents) {
  const MarkerOperands operands = operands_of(marker);
  check_captured(marker, operands, activity_);
  const std::vector<Node*> outputs =
      call_inline(c_, *marker.called.at(1), operands.arguments, operands.captured[1]);
  const auto results = static_cast<std::ptrdiff_t>(marker.shape.elements.size());
  std::vector<Node*> own(outputs.begin() + results, outputs.end());
  const std::vector<Node*> given =
      or_zeros(cotangents, {outputs.begin(), outputs.begin() + results});
  own.insert(own.end(), given.begin(), given.end());
  return call_inline(c_, *marker.called.at(2), std::move(own), operands.captured[2]);
}

bool open_markers(Computation& computation) {
  bool changed = false;
  for (bool again = true; again; changed = changed || again) {
    again = false;
    std::vector<Node*> markers;
    for (const std::unique_ptr<Node>& node : computation.nodes())
      if (marker_of(*node) != Marker::none) markers.push_back(node.get());
    for (Node* marker : markers) {
      if (marker->users().empty() && !has_side_effect(*marker)) continue;
      const MarkerOperands operands = operands_of(*marker);
      std::vector<Node*> own = operands.arguments;
      own.insert(own.end(), operands.captured[0].begin(), operands.captured[0].end());
      computation.replace_uses(marker, inline_computation(*marker->called[0], computation, own));
      marker->frontend_attributes[kReplaced] = "true";
      again = true;
    }
    if (again) computation.remove_dead();
    if (again) computation.sort();
  }
  return changed;
}

}  // namespace gspmd
