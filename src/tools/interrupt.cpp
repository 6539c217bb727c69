#include "tools/interrupt.h"

#include <csignal>
#include <system_error>
#include <thread>

#include "io/atomic_file.h"

namespace gspmd::tools {
namespace {

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU}) {
    struct sigaction now {};
    // One that is ignored stays so, as nohup wants it.
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
      sigaddset(&signals, signal);
  }
  return signals;
}

// Ends the process as the signal would have.
[[noreturn]] void end_by(int signal, const sigset_t& signals) {
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::raise(signal);
  std::_Exit(128 + signal);  // where raise returned, as shells count it
}

}  // namespace

void end_cleanly_when_interrupted() {
  std::signal(SIGXFSZ, SIG_IGN);
  // Blocked in this thread and all that it starts, and waited for in one: a handler might do
  // nothing that takes a lock.
  const sigset_t signals = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  try {
    std::thread([signals] {
      int signal = 0;
      while (::sigwait(&signals, &signal) != 0) {
      }
      io::AtomicFile::remove_unfinished();
      end_by(signal, signals);
    }).detach();
  } catch (const std::system_error&) {  // no thread to be had: end as ever
    ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }
}

}  // namespace gspmd::tools
