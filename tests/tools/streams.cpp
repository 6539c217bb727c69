// What becomes of output and files when writing fails or a signal comes.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "test_folder.h"
#include "tools/run_command.h"

namespace gspmd::streams_test {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

// The exit code of a shell's `command`, where GSPMD stands for the program.
int shell(const std::string& command) {
  const int status = std::system(("GSPMD=" GSPMD_BINARY_DIR "/gspmd; " + command).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a standard output that fails is exit code 2 and a message, in every verb") {
  const TestFolder folder("streams");
  const std::string hlo = folder.file("m.hlo"), err = folder.file("err");
  std::ofstream(hlo) << kNetwork;
  std::vector<std::string> lines = {"--version", "--help", "run --help"};
  for (const char* verb :
       {"print", "propagate", "partition", "run", "verify", "explain", "cost", "visualize", "ops"})
    for (const char* json : {"", " --json"}) {
      const bool reads = verb != std::string("ops");
      lines.push_back(fmt::format("{}{}{}", verb, json, reads ? " " + hlo : ""));
    }
  for (const std::string& line : lines)
    for (const auto& [output, reason] :
         {std::pair{">/dev/full", "No space left on device"}, {">&-", "Bad file descriptor"}}) {
      CAPTURE(line, output);
      CHECK(shell(fmt::format("$GSPMD {} {} 2>{}", line, output, err)) == 2);
      CHECK_THAT(content(err),
                 Contains(fmt::format("gspmd: standard output: cannot be written: {}", reason)));
    }
}

TEST_CASE("a pipe whose reader is gone is exit code 2") {
  const TestFolder folder("streams");
  std::string text = "HloModule m\nENTRY e { x0 = f32[] parameter(0)\n";
  for (int i = 1; i < 4000; ++i) text += fmt::format(" x{} = f32[] negate(x{})\n", i, i - 1);
  std::ofstream(folder.file("m.hlo")) << text << "}\n";
  // More than a pipe holds that nobody reads.
  CHECK(shell(fmt::format("($GSPMD print {} 2>{}; echo $? >{}) | true; exit $(cat {})",
                          folder.file("m.hlo"), folder.file("err"), folder.file("code"),
                          folder.file("code"))) == 2);
  CHECK_THAT(content(folder.file("err")), Contains("standard output: cannot be written: Broken"));
}

TEST_CASE("standard error and standard input that are closed harm nobody") {
  const TestFolder folder("streams");
  const std::string hlo = folder.file("m.hlo"), out = folder.file("o.npz");
  std::ofstream(hlo) << kNetwork;
  CHECK(shell("$GSPMD print no/such 2>/dev/full") == 2);
  CHECK(shell("$GSPMD print no/such 2>&-") == 2);
  CHECK(shell("$GSPMD print - <&- 2>/dev/null") == 2);
  // No file takes the place of a closed stream, and what was meant for it.
  CHECK(shell(fmt::format("$GSPMD run {} --outputs {} --dump-after all <&- >&- 2>&-", hlo, out)) ==
        2);
  CHECK(content(out).substr(0, 2) == "PK");
  CHECK(run_command("verify - --num-devices 8", kNetwork).code == 0);
}

TEST_CASE("a run that a signal ends leaves no file and keeps the ones that were there") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const TestFolder folder("streams");
    std::ofstream(folder.file("old.json")) << "old";
    int input[2];
    REQUIRE(pipe(input) == 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(input[0], 0);
      close(input[0]);
      close(input[1]);
      execl(GSPMD_BINARY_DIR "/gspmd", "gspmd", "run", "-", "--trace",
            folder.file("old.json").c_str(), "--outputs", folder.file("new.npz").c_str(), nullptr);
      _exit(127);
    }
    REQUIRE(write(input[1], "HloModule", 9) == 9);
    // It reads the module, after it has looked at the paths of its results.
    for (int left = 1; left > 0; std::this_thread::yield())
      REQUIRE(ioctl(input[0], FIONREAD, &left) == 0);
    kill(child, signal);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    close(input[0]);
    close(input[1]);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK(folder.names() == std::vector<std::string>{"old.json"});
    CHECK(content(folder.file("old.json")) == "old");
  }
}

TEST_CASE("a file of results that cannot be written whole is not left in part") {
  const TestFolder folder("streams");
  const std::string hlo = folder.file("m.hlo");
  std::ofstream(hlo) << "HloModule m\nENTRY e { x = f32[] parameter(0)\n"
                        " ROOT b = f32[1000] broadcast(x), dimensions={} }\n";
  for (const char* option : {"--outputs", "--trace"}) {
    CAPTURE(option);
    // Of at most 512 bytes or one KiB, as the shell counts.
    CHECK(shell(fmt::format("ulimit -f 1; $GSPMD run {} {} {} >/dev/null 2>&1", hlo, option,
                            folder.file("r"))) == 2);
    CHECK(folder.names() == std::vector<std::string>{"m.hlo"});
    CHECK(shell(fmt::format("$GSPMD run {} {} /dev/full >/dev/null 2>&1", hlo, option)) == 2);
  }
}

}  // namespace gspmd::streams_test
