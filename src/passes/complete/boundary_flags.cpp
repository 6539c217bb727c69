#include "passes/complete/boundary_flags.h"

#include <algorithm>
#include <string_view>

namespace gspmd {
namespace {

// "true,false" or "{1,0}": the first letter of each word decides.
std::vector<bool> flags_of(std::string_view text) {
  std::vector<bool> flags;
  for (const char c : text) {
    if (c == 't' || c == '1') flags.push_back(true);
    if (c == 'f' || c == '0') flags.push_back(false);
  }
  return flags;
}

// What the module says where the caller does not. A header's flags that are not one for each of
// `values` are those of its printer's own flattening: open where any is.
std::vector<bool> flags_of_module(const Module& module, const char* attribute, const char* header,
                                  size_t values) {
  const auto found = module.frontend_attributes.find(attribute);
  if (found != module.frontend_attributes.end()) return flags_of(found->second);
  for (const auto& [name, text] : module.header) {
    if (name != header) continue;
    const std::vector<bool> flags = flags_of(text);
    if (flags.size() <= 1 || flags.size() == values) return flags;
    return {std::find(flags.begin(), flags.end(), true) != flags.end()};
  }
  return {};
}

}  // namespace

bool is_open_at(const std::vector<bool>& flags, size_t i) {
  if (flags.empty()) return false;
  return flags.size() == 1 ? flags[0] : i < flags.size() && flags[i];
}

bool is_single_tuple(const Computation& entry) {
  return entry.parameters().size() == 1 && entry.parameters()[0]->shape.is_tuple;
}

size_t output_count(const Computation& entry) {
  const Shape& root = entry.root()->shape;
  return root.is_tuple ? root.elements.size() : 1;
}

size_t parameter_count(const Computation& entry) {
  return is_single_tuple(entry) ? entry.parameters()[0]->shape.elements.size()
                                : entry.parameters().size();
}

BoundaryFlags boundary_flags(const Module& module, const PropagateOptions& options) {
  const Computation& entry = *module.entry();
  BoundaryFlags flags{options.allow_output, options.allow_parameters};
  if (flags.results.empty())
    flags.results =
        flags_of_module(module, "gspmd.open_outputs", "allow_spmd_sharding_propagation_to_output",
                        output_count(entry));
  if (flags.parameters.empty())
    flags.parameters =
        flags_of_module(module, "gspmd.open_parameters",
                        "allow_spmd_sharding_propagation_to_parameters", parameter_count(entry));
  return flags;
}

}  // namespace gspmd
