#pragma once

#include "gspmd/mesh/sharding.h"

namespace gspmd {

// The sharding of a value of `from` dims after a reshape to `to`: digits that stay contiguous
// blocks of the result are kept, the others become replication (docs/spec/completion.md 7). Dims
// that the reshape keeps pass uneven digits too; merged or split dims only digits that divide.
Sharding reshape_sharding(const Dims& from, const Dims& to, const Sharding& sharding);

// Whether all digits of `sharding` are kept so.
bool carries_all(const Dims& from, const Dims& to, const Sharding& sharding);

}  // namespace gspmd
