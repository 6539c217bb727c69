#pragma once

#include <string>

#include "gspmd/ir/module.h"

namespace gspmd {

// What a user said of how a node is laid out, in either form: its sharding, or an attribute of the
// dialect `sdy`. The borders of manual computations say what values are there, and are none.
bool is_annotated(const Node& node);
// Takes it away, and lays the node out so where `sharding` is there.
void annotate_instead(Node& node, std::optional<Sharding> sharding);
// As it is written; empty: the node has none.
std::string annotation_text(const Node& node);

}  // namespace gspmd
