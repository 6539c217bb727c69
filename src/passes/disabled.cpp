#include "passes/disabled.h"

#include <fmt/ranges.h>

#include "gspmd/base/error.h"
#include "gspmd/passes/pipeline.h"

namespace gspmd {

void check_disabled(const std::vector<std::string>& passes) {
  for (const std::string& pass : passes) {
    if (!pass.starts_with("keep-")) continue;
    std::vector<std::string> others;
    for (std::string& name : pass_names())
      if (!name.starts_with("keep-")) others.push_back(std::move(name));
    user_error("disable: {} keeps a stage of the module that is read later; leave out others: {}",
               pass, fmt::join(others, ", "));
  }
}

}  // namespace gspmd
