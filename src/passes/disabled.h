#pragma once

#include <string>
#include <vector>

namespace gspmd {

// An error where a pass among them keeps a stage of the module that is read later: only who does
// not read it may leave it out.
void check_disabled(const std::vector<std::string>& passes);

}  // namespace gspmd
