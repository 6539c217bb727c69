#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "faults.h"
#include "test_folder.h"

namespace gspmd::io {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

std::string content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(0, std::as_bytes(std::span(text)));
  file.commit();
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("atomic file: the old content stays until the new one is whole") {
  const TestFolder folder("folder");
  const std::string path = folder.file("a");
  write_text(path, "old");
  {
    AtomicFile file(path);
    file.write(0, std::as_bytes(std::span("new content", 11)));
    CHECK(content(path) == "old");
    CHECK(folder.names().size() == 2);
  }
  CHECK(content(path) == "old");
  CHECK(folder.names() == Names{"a"});
  write_text(path, "new");
  CHECK(content(path) == "new");
  CHECK(folder.names() == Names{"a"});
}

TEST_CASE("atomic file: what a killed writer left is removed, what a living one writes is not") {
  const TestFolder folder("folder");
  const std::string path = folder.file("a");
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(path);
    file.write(0, std::as_bytes(std::span("half", 4)));
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(folder.names().size() == 1);
  CHECK(folder.names()[0].starts_with(".a.tmp-"));
  std::ofstream(folder.file(".b.tmp-1-0")) << "another's";
  std::ofstream(folder.file(".a.tmp-mine")) << "no writer's";
  AtomicFile first(path);
  CHECK(folder.names().size() == 3);  // its own, and the two that are none of its business
  AtomicFile second(path);
  CHECK(folder.names().size() == 4);
  CHECK(remove_leftovers(folder.path(), "a") == 0);
  first.write(0, std::as_bytes(std::span("first", 5)));
  first.commit();
  second.write(0, std::as_bytes(std::span("second", 6)));
  second.commit();
  CHECK(content(path) == "second");
  CHECK(folder.names() == Names{".a.tmp-mine", ".b.tmp-1-0", "a"});
  CHECK(remove_leftovers(folder.path(), "b") == 1);
  CHECK(remove_leftovers(folder.file("none"), "b") == 0);
}

TEST_CASE("atomic file: what is not committed can be removed when a signal ends the process") {
  const TestFolder folder("folder");
  write_text(folder.file("old"), "old");
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile first(folder.file("old")), second(folder.file("new"));
    first.write(0, std::as_bytes(std::span("half", 4)));
    AtomicFile::remove_unfinished();
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(folder.names() == Names{"old"});
  CHECK(content(folder.file("old")) == "old");
}

TEST_CASE("atomic file: a symbolic link stays one, and its file is replaced") {
  const TestFolder folder("folder");
  write_text(folder.file("a"), "old");
  fs::create_symlink("a", folder.file("link"));
  write_text(folder.file("link"), "new");
  CHECK(fs::is_symlink(folder.file("link")));
  CHECK(content(folder.file("a")) == "new");
}

TEST_CASE("atomic file: every failing step is told, and leaves the old file and nothing else") {
  const TestFolder folder("folder");
  const std::string path = folder.file("a");
  write_text(path, "old");
  CHECK_THROWS_WITH(write_text("/dev/null", "x"), Contains("it is no regular file"));
  CHECK_THROWS_WITH(write_text(folder.path(), "x"), Contains("it is no regular file"));
  CHECK_THROWS_WITH(write_text(folder.file("no/such"), "x"),
                    Contains("the folder") && Contains("No such file or directory"));
  CHECK_THROWS_WITH(write_text(folder.file(std::string(250, 'x')), "x"),
                    Contains("cannot be written: File name too long"));
  CHECK_THROWS_WITH(sync_folder(folder.file("none")),
                    Contains("cannot be synced: No such file or directory"));
  struct Fault {
    int call, error;
    const char* message;
    bool renamed;
  };
  const Fault faults[] = {
      {SYS_pwrite64, ENOSPC, "cannot be written: No space left on device", false},
      {SYS_fsync, EIO, "cannot be written: sync: Input/output error", false},
      {SYS_rename, EROFS, "cannot be written: rename: Read-only", false},
      {SYS_flock, ENOLCK, "cannot be written: lock: No locks", false}};
  for (const Fault& fault : faults) {
    const std::string message = in_child([&] {
      if (!fail_system_call(fault.call, fault.error)) throw std::runtime_error("not allowed");
      write_text(path, "new");
    });
    if (message == "not allowed") continue;
    CHECK_THAT(message, Contains(path) && Contains(fault.message));
    CHECK(content(path) == "old");
    CHECK(folder.names() == Names{"a"});
  }
}

TEST_CASE("atomic file: a limit of the file's size and a folder without rights are told") {
  const TestFolder folder("folder");
  const std::string path = folder.file("a");
  write_text(path, "old");
  CHECK_THAT(in_child([&] {
               const rlimit limit{4, 4};
               signal(SIGXFSZ, SIG_IGN);
               setrlimit(RLIMIT_FSIZE, &limit);
               write_text(path, "too long for it");
             }),
             Contains("cannot be written: File too large"));
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec |
                                     fs::perms::others_read | fs::perms::others_exec);
  const std::string message = in_child([&] {
    if (getuid() == 0 && setuid(65534) != 0) throw std::runtime_error("Permission denied");
    write_text(path, "new");
  });
  fs::permissions(folder.path(), fs::perms::owner_all);
  CHECK_THAT(message, Contains("Permission denied"));
  CHECK(content(path) == "old");
  CHECK(folder.names() == Names{"a"});
}

}  // namespace gspmd::io
