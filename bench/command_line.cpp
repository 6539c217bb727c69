#include "bench/command_line.h"

#include <CLI/CLI.hpp>
#include <vector>

namespace gspmd {

struct CommandLine::Parser {
  CLI::App app;
};

CommandLine::CommandLine(const std::string& purpose) : parser_(new Parser{CLI::App(purpose)}) {}
CommandLine::~CommandLine() = default;

template <class T>
void CommandLine::option(const std::string& name, T& value, const std::string& help) {
  parser_->app.add_option(name, value, help);
}

template <class T>
void CommandLine::number(const std::string& name, T& value, const std::string& help, int64_t least,
                         int64_t most) {
  const std::string text = most == kMost
                               ? "from " + std::to_string(least)
                               : "from " + std::to_string(least) + " to " + std::to_string(most);
  parser_->app.add_option(name, value, help)->check(CLI::Range(least, most, text));
}

void CommandLine::flag(const std::string& name, bool& value, const std::string& help) {
  parser_->app.add_flag(name, value, help);
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return parser_->app.exit(error);
  }
  return std::nullopt;
}

using Integers = std::vector<int64_t>;
using Texts = std::vector<std::string>;
template void CommandLine::option(const std::string&, int&, const std::string&);
template void CommandLine::option(const std::string&, int64_t&, const std::string&);
template void CommandLine::option(const std::string&, uint32_t&, const std::string&);
template void CommandLine::option(const std::string&, size_t&, const std::string&);
template void CommandLine::option(const std::string&, double&, const std::string&);
template void CommandLine::option(const std::string&, std::string&, const std::string&);
template void CommandLine::option(const std::string&, Integers&, const std::string&);
template void CommandLine::option(const std::string&, Texts&, const std::string&);
template void CommandLine::number(const std::string&, int&, const std::string&, int64_t, int64_t);
template void CommandLine::number(const std::string&, int64_t&, const std::string&, int64_t,
                                  int64_t);
template void CommandLine::number(const std::string&, Integers&, const std::string&, int64_t,
                                  int64_t);

}  // namespace gspmd
