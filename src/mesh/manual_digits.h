#pragma once

#include <vector>

#include "gspmd/mesh/sharding.h"

// Layouts of values of manual regions: `{manual}` ones are as each device computes them; those with
// manual digits are so along these digits, and partitioned along the others.

namespace gspmd {

bool is_manual_value(const Sharding& s);  // {manual}, or a tuple of such
bool has_manual_digits(const Sharding& s);
Sharding without_manual(const Sharding& s);
Sharding with_manual(const Sharding& s, DeviceOrder order, const Digits& manual);

// The digits of each dim of a value of that rank.
std::vector<Digits> dims_of(const Sharding& s, int64_t rank);

}  // namespace gspmd
