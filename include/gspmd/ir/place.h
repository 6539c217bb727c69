#pragma once

// Lines of nodes, for errors.

#include <string>
#include <string_view>
#include <utility>

#include "gspmd/base/error.h"
#include "gspmd/base/export.h"
#include "gspmd/base/site.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// A site whose file name lasts as long as the process; each name is kept once. Thread-safe.
GSPMD_API Site lasting_site(std::string_view file, int64_t line);

// "model.py:12", the user's line that metadata names; empty where it names none.
GSPMD_API std::string source_line(const Metadata& metadata);

// Where errors say that the node stands: its line of the text it was read from, else the user's
// line that its metadata names; of a node that a pass made without either, the line of what it
// holds or reads. Not known where there is none.
GSPMD_API Site place_of(const Node& node);

// Gives an error without a line the node's: "message, from model.py:12 (model.hlo:3)" where both
// lines are known. A line of the user's that the message names already is not said again.
GSPMD_API void add_place(Error& error, const Node& node);

// run(), whose errors say where the node stands; those that say a line already keep it. Loops over
// nodes call it around what they do with each.
template <class F>
decltype(auto) at_node(const Node& node, F&& run) {
  try {
    return std::forward<F>(run)();
  } catch (Error& error) {
    add_place(error, node);
    throw;
  }
}

}  // namespace gspmd
