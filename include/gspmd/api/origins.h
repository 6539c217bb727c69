#pragma once

// Why completion laid values out as it did.

#include <string>
#include <string_view>

#include "gspmd/api/executable.h"
#include "gspmd/base/export.h"

namespace gspmd {

// Why values of a compiled program are laid out as they are: for each value of this name (the
// user's name or that of its node in the completed module) and each split dim one line, as
// "dim 1 over model: from w at model.cpp:24, through dot %q". UserError when no value has the name.
GSPMD_API std::string sharding_origins(const ExecutableBase& step, std::string_view name);

// Annotations that another one overruled, with the place, those that nothing else used, those
// without which every value would be laid out as it is (of the first 64), and a shard_as or
// shard_like of whose two results only one is used, which says nothing: one line each, "" for none.
GSPMD_API std::string sharding_lint(const ExecutableBase& step);

}  // namespace gspmd
