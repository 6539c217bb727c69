#include "stablehlo/lowering.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <unordered_set>

#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "stablehlo/annotations.h"
#include "stablehlo/text/op_stream.h"

namespace gspmd::stablehlo {
namespace {

bool is_return(const Op& op) { return op.name.ends_with(".return"); }

// What names mean in a region: those it makes, and those it only reads.
class FreeNames {
 public:
  explicit FreeNames(std::vector<Use>& found) : found_(found) {}

  void scan(const Region& region) {
    std::vector<std::string_view> made;
    const auto make = [&](std::string_view name) {
      if (inside_.insert(name).second) made.push_back(name);
    };
    for (const Argument& argument : region.arguments) make(argument.name);
    for (const Op& op : region.ops) {
      for (const Use& use : op.operands) {
        if (inside_.contains(use.name)) continue;
        if (seen_.insert(fmt::format("{}#{}", use.name, use.index)).second) found_.push_back(use);
      }
      for (const Region& inner : op.regions) scan(inner);
      for (const ResultName& result : op.results) make(result.name);
    }
    for (const std::string_view name : made) inside_.erase(name);
  }

 private:
  std::vector<Use>& found_;
  std::unordered_set<std::string_view> inside_;
  std::unordered_set<std::string> seen_;
};

// Constants that are made anew where a region reads them.
bool is_copied(const Node& node) { return node.is(Opcode::constant) || node.is(Opcode::iota); }

}  // namespace

void Frame::bind(std::string_view name, std::vector<Node*> values) {
  values_[{name}] = {nullptr, std::make_unique<Results>(Results{std::move(values), nullptr, 0})};
}

void Frame::bind_tuple(std::string_view name, Node* tuple, int64_t first, int64_t count) {
  std::vector<Node*> values(static_cast<size_t>(count), nullptr);
  values_[{name}] = {nullptr, std::make_unique<Results>(Results{std::move(values), tuple, first})};
}

void Frame::bind_one(const Use& use, Node* value) {
  Binding& binding = values_[{use.name}];
  if (!binding.several) binding.several = std::make_unique<Results>();
  std::vector<Node*>& values = binding.several->values;
  if (binding.one != nullptr) values.assign(1, std::exchange(binding.one, nullptr));
  const auto index = static_cast<size_t>(use.index);
  if (index >= values.size()) values.resize(index + 1, nullptr);
  values[index] = value;
}

Node* Frame::value(const Use& use) {
  const Binding* const binding = values_.find({use.name});
  if (binding == nullptr) return nullptr;
  if (binding->one != nullptr) return use.index == 0 ? binding->one : nullptr;
  Results* const results = binding->several.get();
  if (results == nullptr || use.index < 0 || use.index >= std::ssize(results->values))
    return nullptr;
  Node*& node = results->values[static_cast<size_t>(use.index)];
  if (node == nullptr && results->tuple != nullptr) {
    node = hlo::get_tuple_element(results->tuple, results->first + use.index);
    node->metadata = results->tuple->metadata;
  }
  return node;
}

ModuleLowering::ModuleLowering(Syntax& syntax, Module& module, const ReadOptions& options)
    : syntax_(syntax),
      module_(module),
      options_(options),
      locations_(syntax.attributes_table, syntax.cursor) {
  const std::string_view text = syntax.cursor.text();
  size_t at = 0;
  while (at < text.size()) {
    const void* const end = std::memchr(text.data() + at, '\n', text.size() - at);
    if (end == nullptr) break;
    at = static_cast<size_t>(static_cast<const char*>(end) - text.data());
    line_ends_.push_back(at++);
  }
  file_ = lasting_site(syntax.cursor.file(), 0);
}

Site ModuleLowering::site_of(size_t position) const {
  // Most places follow the one asked for last.
  size_t line = last_line_;
  const bool is_behind = line == 0 || line_ends_[line - 1] < position;
  const size_t most = std::min(line + 4, line_ends_.size());
  while (is_behind && line < most && line_ends_[line] < position) ++line;
  if (!is_behind || (line < line_ends_.size() && line_ends_[line] < position))
    line = static_cast<size_t>(std::lower_bound(line_ends_.begin(), line_ends_.end(), position) -
                               line_ends_.begin());
  last_line_ = line;
  return {file_.file, static_cast<int>(line) + 1};
}

std::string ModuleLowering::text_of(const Attribute& attribute) {
  return attribute_text(syntax_.attributes_table, syntax_.cursor, attribute);
}

std::vector<Use> ModuleLowering::captured(std::span<const Region* const> regions) {
  std::vector<Use> uses, result;
  FreeNames names(uses);
  for (const Region* region : regions) names.scan(*region);
  for (const Use& use : uses) {
    Node* const node = frame_->value(use);
    if (node == nullptr) cursor().fail(use.position, "%{} is not defined here", use.name);
    if (!is_copied(*node)) result.push_back(use);
  }
  return result;
}

// Constants of the outer frame that the region reads, as constants of its own.
void ModuleLowering::copy_constants(const Region& region, Frame& outer, Frame& inner) {
  std::vector<Use> uses;
  FreeNames(uses).scan(region);
  for (const Use& use : uses) {
    if (inner.knows(use)) continue;
    Node* const node = outer.value(use);
    if (node == nullptr || !is_copied(*node)) continue;
    Node* const copy = inner.computation().append(node->opcode(), node->shape, {}, node->attrs);
    copy_annotations(*node, *copy);
    inner.bind_one(use, copy);
  }
}

// Names of computations that functions have are kept for these.
std::string ModuleLowering::region_name(std::string name) const {
  const auto is_taken = [&] {
    if (function_names_.contains(name)) return true;
    const auto next = function_names_.lower_bound(name + ".");
    return next != function_names_.end() && next->starts_with(name + ".");
  };
  while (is_taken()) name += "_";
  return name;
}

Computation* ModuleLowering::lower_region(const Region& region, const std::string& name,
                                          const RegionForm& form) {
  Computation* const computation = module_.add_computation(region_name(name));
  Frame frame(computation);
  Frame* const outer = frame_;
  form.bind(frame);
  if (outer != nullptr) copy_constants(region, *outer, frame);
  frame_ = &frame;
  lower_ops(region.ops);
  if (!frame.has_returned) cursor().fail(region.position, "the region does not end with a return");
  std::vector<Node*> results = std::move(frame.returned);
  if (form.extra)
    for (Node* node : form.extra(frame)) results.push_back(node);
  Node* root = nullptr;
  if (results.size() == 1 && !form.tuple)
    root = results[0];
  else
    root = hlo::tuple(*computation, std::move(results));
  computation->set_root(root);
  frame_ = outer;
  return computation;
}

void ModuleLowering::lower_ops(const Ops& ops) {
  frame_->reserve(ops.size());
  for (const Op& op : ops) lower_next(op);
}

// Lowers op by op as they are read.
void ModuleLowering::lower_unread(const UnreadBody& body) {
  if (std::exchange(has_read_, true) || processes_) throw ReadWhole{};
  // An op has a line, and is not shorter than this.
  constexpr size_t kShortest = 16;
  frame_->reserve(std::min(body.lines, (body.end - body.begin) / kShortest));
  const std::vector<const Function*> expected = callees_of(*entry_);
  Callees callees;
  const ArenaScope no_arena(nullptr);
  OpStream ops(syntax_, body);
  while (const Op* const op = ops.next()) {
    add_callees(*op, callees);
    lower_next(*op);
  }
  if (ops.end() != body.end || callees.in_order != expected) throw ReadWhole{};
}

void ModuleLowering::lower_next(const Op& op) {
  if (frame_->has_returned)
    cursor().fail(op.position, "{} stands behind the region's return", op.name);
  if (!is_return(op)) return lower_op(op);
  frame_->returned = OpLowering(*this, op).operands();
  frame_->has_returned = true;
}

void ModuleLowering::lower_op(const Op& op) {
  Computation& computation = frame_->computation();
  const size_t first = computation.nodes().size();
  const EmissionScope scope(locations_.metadata(op.location));
  for (const NamedAttribute& named : op.attributes) named.used = false;
  try {
    OpLowering lowering(*this, op);
    if (op.row->lower == nullptr) lowering.fail_with("it stands in other ops only");
    Node* const node = op.row->lower(lowering);
    if (node != nullptr) annotate(lowering, *node);
    refuse_unread(lowering);
    bind_results(op, node, lowering.results());
  } catch (const UserError& error) {
    const std::string message = error.what();
    if (message.starts_with(fmt::format("{}:", cursor().file()))) throw;
    const size_t colon = message.find(": ");
    const bool has_name = colon != std::string::npos && colon < 30 && message.find(' ') > colon;
    cursor().fail_at(op.position, fmt::format("{}: {}", op.name,
                                              has_name ? message.substr(colon + 2) : message));
  } catch (const std::out_of_range&) {
    cursor().fail(op.position, "{}: an attribute names a dim or operand that is not there",
                  op.name);
  }
  const Site site = site_of(op.position);
  for (size_t i = first; i < computation.nodes().size(); ++i)
    computation.nodes()[i]->metadata.text = site;
}

void ModuleLowering::bind_results(const Op& op, Node* node, const std::vector<Node*>* results) {
  const size_t declared = op.result_types.size();
  const bool is_elements = results == nullptr && declared != 1;
  const auto shape_of = [&](size_t i) -> const Shape& {
    return results ? (*results)[i]->shape : is_elements ? node->shape.elements[i] : node->shape;
  };
  const size_t given = results       ? results->size()
                       : is_elements ? node == nullptr ? 0 : node->shape.elements.size()
                                     : 1;
  if (given != declared)
    cursor().fail(op.position, "{}: {} results are declared, it has {}", op.name, declared, given);
  for (size_t i = 0; i < declared; ++i)
    if (!fits(shape_of(i), *op.result_types[i]))
      cursor().fail(op.position, "{}: the result is declared as {}, but the operands give {}",
                    op.name, type_text(op.result_types[i]->shape), type_text(shape_of(i)));
  if (declared == 1 && !is_elements) {
    Node* const value = results ? (*results)[0] : node;
    const std::vector<bool>& dynamic = op.result_types[0]->shape.dynamic_dims;
    if (!dynamic.empty()) value->shape.dynamic_dims = dynamic;
  }
  int64_t next = 0;
  for (const ResultName& name : op.results) {
    const auto twice = [&] { cursor().fail(name.position, "%{} is defined twice", name.name); };
    const auto at = [&](int64_t i) { return results ? (*results)[static_cast<size_t>(i)] : node; };
    if (!is_elements && name.count == 1) {
      if (!frame_->bind(name.name, at(next))) twice();
    } else {
      if (frame_->knows(name.name)) twice();
      if (is_elements) {
        frame_->bind_tuple(name.name, node, next, name.count);
      } else {
        std::vector<Node*> values;
        for (int64_t i = 0; i < name.count; ++i) values.push_back(at(next + i));
        frame_->bind(name.name, std::move(values));
      }
    }
    next += name.count;
  }
}

}  // namespace gspmd::stablehlo
