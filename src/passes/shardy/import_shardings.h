#pragma once

#include "gspmd/ir/module.h"

namespace gspmd {

// Says the shardings that the module has in HLO's form alone in `sdy` instead: each node's in its
// attribute, by the axes of a mesh of the module, else over one mesh where all of them fit into
// one. UserError, with the node's place, where `sdy` has no word for one.
void import_shardings(Module& module);

// Whether the node is a border of a manual computation without the dialect's attributes: in HLO
// whose shardings are named, the calls and values around it say them.
bool is_silent_border(const Node& node);

// Of an entry computation with one tuple for all arguments (xla.sdy.use_tuple_args): what the
// module says of the leaves of arguments and results is said by the parameters and results
// themselves.
void read_tuple_shardings(Module& module);

}  // namespace gspmd
