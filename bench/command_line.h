#pragma once

// The command line of a benchmark. What reads it is compiled once, not for each benchmark.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gspmd {

class CommandLine {
 public:
  static constexpr int64_t kMost = int64_t(1) << 53;  // of numbers without a bound of their own
  // `purpose` is what --help prints first.
  explicit CommandLine(const std::string& purpose);
  ~CommandLine();

  // --NAME VALUE. T is int, int64_t, uint32_t, size_t, double, std::string or a vector of int64_t
  // or of strings; `value` holds what it is where the option is not given.
  template <class T>
  void option(const std::string& name, T& value, const std::string& help = "");
  // The same of numbers, each from `least` to `most`; others end the program with a message.
  template <class T>
  void number(const std::string& name, T& value, const std::string& help = "", int64_t least = 1,
              int64_t most = kMost);
  // --NAME makes it true, "!--NAME" false.
  void flag(const std::string& name, bool& value, const std::string& help = "");

  // Reads the arguments. The exit status where the program ends here: after --help, or as they are
  // wrong, which is said on standard error.
  std::optional<int> parse(int argc, char** argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace gspmd
