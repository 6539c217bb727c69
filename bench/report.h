#pragma once

// What a benchmark reports: figures with units, a line of them printed as soon as it is measured,
// and all of a run as one JSON document for scripts/bench_compare.

#include <string>
#include <vector>

#include "bench/command_line.h"

namespace gspmd {

// Which values of a figure are better; what is `same` is no measurement and may not change.
enum class Better { lower, higher, same };

struct Figure {
  std::string name;  // with its unit: "wall_ms", "copy_gb_per_s", "ratio"
  double value = 0;
  Better better = Better::lower;
};

// Of one run of one benchmark. What it measures is named by text ("all-reduce of 16 MB"), unique in
// the run with a figure's name.
class Report {
 public:
  // Gives `line` the option --json FILE. `bench` is the name of the binary.
  Report(CommandLine& line, std::string bench);

  // Prints {"of":"...","wall_ms":1.25,...} as a line.
  void add(const std::string& of, const std::vector<Figure>& figures);

  // Writes the document where --json says so, from the first process of several. Throws
  // std::runtime_error where the file cannot be written.
  void write() const;

 private:
  struct Row {
    std::string of;
    Figure figure;
  };
  std::string bench_, path_;
  std::vector<Row> rows_;
};

}  // namespace gspmd
