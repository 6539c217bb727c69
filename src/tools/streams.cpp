#include "tools/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/runtime/processes.h"

namespace gspmd::tools {
namespace {

[[noreturn]] void fail_output(int reason) {
  user_error("standard output: cannot be written: {}; give it a file or pipe that takes it all",
             std::strerror(reason));
}

}  // namespace

void guard_standard_streams() {
  // Reading from the one and writing to the other fails, as it would if they were closed.
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_RDWR};
  for (int stream = 0; stream < 3; ++stream)
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      // The lowest free number: those below are open.
      static_cast<void>(::open("/dev/null", kModes[stream]));
    }
  std::signal(SIGPIPE, SIG_IGN);
}

void write_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_output(errno);
}

void finish_output() {
  if (std::ferror(stdout) != 0 || std::fclose(stdout) != 0) fail_output(errno);
}

void write_message(std::string_view text) {
  if (!is_first_process()) return;
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

}  // namespace gspmd::tools
