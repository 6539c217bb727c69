#pragma once

#include <map>
#include <string>

#include "gspmd/ir/attributes.h"
#include "ir/lexer.h"

namespace gspmd {

// The tables FileNames, FunctionNames, FileLocations and StackFrames that XLA prints after the
// header; metadata refers to them by stack_frame_id.
class StackFrames {
 public:
  // Reads the table that comes next; false when none does.
  bool read_table(Lexer& lexer);
  // Replaces stack_frame_id by the file and line it stands for, where the tables know it.
  void resolve(Metadata& metadata) const;

 private:
  struct Location {
    int64_t file = 0, line = 0;
  };
  std::map<int64_t, std::string> files_;
  std::map<int64_t, Location> locations_;
  std::map<int64_t, int64_t> frames_;  // -> location
};

}  // namespace gspmd
