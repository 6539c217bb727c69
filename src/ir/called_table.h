#pragma once

#include <span>
#include <string>
#include <string_view>

#include "gspmd/ir/module.h"

namespace gspmd {

// An attribute that names computations: one, for a place in Node::called, or a list, for all
// places.
struct CalledAttribute {
  std::string_view name;
  bool is_list = false;
  size_t slot = 0;
};

// How an opcode names the computations that it calls.
struct CalledRow {
  std::vector<CalledAttribute> attributes;
  size_t least = 0, most = 0;  // called computations
};

const CalledRow& called_row(Opcode opcode);

// The attribute behind Node::called[slot]: "to_apply", "branch_computations".
std::string_view called_name(const Node& node, size_t slot);
// ", condition=%c, body=%b"; a list as ", branch_computations={%a, %b}".
std::string print_called(const Node& node);

}  // namespace gspmd
