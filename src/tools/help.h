#pragma once

#include <string>

namespace gspmd::tools {

// The text of `gspmd VERB --help` before and after the list of options.
std::string verb_description(const std::string& verb);
std::string verb_footer(const std::string& verb);
// The same for `gspmd --help`.
std::string command_description();
std::string command_footer();

}  // namespace gspmd::tools
