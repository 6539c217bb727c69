#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <memory>

#include "gspmd/base/error.h"
#include "gspmd/io/npy.h"
#include "io/atomic_file.h"
#include "io/npy_format.h"

namespace gspmd {

using namespace io;

namespace {

struct ZipError {
  ZipError() { zip_error_init(&error); }
  ~ZipError() { zip_error_fini(&error); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  zip_error_t error;
};

// Where libzip writes an archive to: an AtomicFile, so that only a whole one gets its name.
class Sink {
 public:
  explicit Sink(const std::string& path) : file_(path) {}

  static zip_int64_t command(void* sink, void* data, zip_uint64_t size, zip_source_cmd_t command) {
    return static_cast<Sink*>(sink)->run(data, size, command);
  }
  void commit() { file_.commit(); }
  // What writing threw, which may not pass through libzip.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  zip_int64_t run(void* data, zip_uint64_t size, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_SUPPORTS:
        return ZIP_SOURCE_SUPPORTS_WRITABLE;
      case ZIP_SOURCE_STAT:  // nothing is there yet
        zip_stat_init(static_cast<zip_stat_t*>(data));
        static_cast<zip_stat_t*>(data)->valid = ZIP_STAT_SIZE;
        static_cast<zip_stat_t*>(data)->size = 0;
        return sizeof(zip_stat_t);
      case ZIP_SOURCE_OPEN:
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_BEGIN_WRITE:
      case ZIP_SOURCE_COMMIT_WRITE:
      case ZIP_SOURCE_FREE:
        return 0;
      case ZIP_SOURCE_WRITE:
        return write({static_cast<const std::byte*>(data), size});
      case ZIP_SOURCE_TELL_WRITE:
        return at_;
      case ZIP_SOURCE_SEEK_WRITE:
        at_ = zip_source_seek_compute_offset(static_cast<zip_uint64_t>(at_),
                                             static_cast<zip_uint64_t>(end_), data, size,
                                             &error_.error);
        return at_ < 0 ? -1 : 0;
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_.error, data, size);
      default:
        return refuse(ZIP_ER_OPNOTSUPP);
    }
  }

  zip_int64_t write(std::span<const std::byte> bytes) {
    try {
      file_.write(at_, bytes);
    } catch (...) {
      failure_ = std::current_exception();
      return refuse(ZIP_ER_WRITE);
    }
    at_ += static_cast<int64_t>(bytes.size());
    end_ = std::max(end_, at_);
    return static_cast<zip_int64_t>(bytes.size());
  }

  zip_int64_t refuse(int code) {
    zip_error_set(&error_.error, code, errno);
    return -1;
  }

  AtomicFile file_;
  int64_t at_ = 0, end_ = 0;
  ZipError error_;
  std::exception_ptr failure_;
};

using Archive = std::unique_ptr<zip_t, void (*)(zip_t*)>;

Archive open_archive(Sink& sink, const std::string& path) {
  ZipError error;
  zip_source_t* const source = zip_source_function_create(Sink::command, &sink, &error.error);
  zip_t* const archive =
      source == nullptr ? nullptr
                        : zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error.error);
  if (archive == nullptr) {
    zip_source_free(source);
    user_error("{}: cannot be written: {}", path, zip_error_strerror(&error.error));
  }
  return {archive, [](zip_t* a) {
            if (a != nullptr) zip_discard(a);
          }};
}

void add_member(zip_t* archive, const std::string& path, const std::string& name,
                const std::vector<std::byte>& content) {
  zip_source_t* const source = zip_source_buffer(archive, content.data(), content.size(), 0);
  const zip_int64_t index =
      source == nullptr ? -1
                        : zip_file_add(archive, (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    user_error("{}: array \"{}\" cannot be written: {}", path, name, zip_strerror(archive));
  }
  // No compression and one date for all: equal arrays give equal files.
  zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  zip_file_set_dostime(archive, static_cast<zip_uint64_t>(index), 0, 0x21, 0);
}

// libzip makes no archive without entries; an empty npz file is a valid one.
void write_empty(const std::string& path) {
  constexpr std::array<unsigned char, 22> kEmpty = {'P', 'K', 5, 6};
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(kEmpty))};
  write_file(path, pieces);
}

}  // namespace

void write_npz(const std::string& path, std::span<const std::pair<std::string, Array>> arrays) {
  if (arrays.empty()) return write_empty(path);
  std::vector<std::vector<std::byte>> contents;  // until the archive is closed
  for (const auto& [name, array] : arrays) contents.push_back(npy_bytes(array));
  Sink sink(path);
  Archive archive = open_archive(sink, path);
  for (size_t i = 0; i < contents.size(); ++i)
    add_member(archive.get(), path, arrays[i].first, contents[i]);
  if (zip_close(archive.get()) != 0) {
    sink.rethrow();
    user_error("{}: cannot be written: {}", path, zip_strerror(archive.get()));
  }
  static_cast<void>(archive.release());  // closed
  sink.commit();
}

}  // namespace gspmd
