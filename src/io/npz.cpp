#include <fmt/format.h>
#include <zip.h>

#include <cstring>
#include <map>

#include "gspmd/base/error.h"
#include "gspmd/io/npy.h"
#include "io/npy_format.h"

namespace gspmd {

using namespace io;

namespace {

// No byte of deflated data gives more than this many (RFC 1951: 258 bytes from two bits).
constexpr int64_t kMaxInflation = 1032;

using Archive = std::unique_ptr<zip_t, void (*)(zip_t*)>;
using Stream = std::unique_ptr<zip_file_t, void (*)(zip_file_t*)>;

std::string text_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

// One .npy file inside an archive, read from front to back.
class Member {
 public:
  Member(zip_t* archive, const std::string& path, const std::string& name, uint64_t index)
      : label_(fmt::format("{}: array \"{}\"", path, name)), stream_(nullptr, [](zip_file_t* f) {
          if (f != nullptr) zip_fclose(f);
        }) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if (zip_stat_index(archive, index, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded)
      user_error("{}: the archive does not say its size", label_);
    if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && stat.encryption_method != ZIP_EM_NONE)
      user_error("{}: is encrypted; save it without a password", label_);
    const auto limit = static_cast<uint64_t>(
        saturating_multiply(static_cast<int64_t>(stat.comp_size >> 1), 2 * kMaxInflation) +
        kMaxInflation);
    if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
      user_error("{}: compression method {}; stored and deflated arrays are read", label_,
                 stat.comp_method);
    if (stat.size > limit || stat.size > (uint64_t{1} << 62))
      user_error("{}: declares {} bytes, which {} compressed bytes cannot hold", label_, stat.size,
                 stat.comp_size);
    left_ = static_cast<int64_t>(stat.size);
    stream_.reset(zip_fopen_index(archive, index, 0));
    if (!stream_) user_error("{}: cannot be read: {}", label_, zip_strerror(archive));
  }

  NpyHeader header() {
    std::vector<std::byte> bytes(static_cast<size_t>(std::min(left_, kNpyPrefix)));
    read(bytes);
    const int64_t length = npy_header_bytes(bytes, label_);
    const auto first = static_cast<int64_t>(bytes.size());
    if (length - first > left_)
      user_error("{}: an npy header of {} bytes in {}", label_, length, left_ + first);
    bytes.resize(static_cast<size_t>(std::max(length, first)));
    read(std::span(bytes).subspan(static_cast<size_t>(first)));
    return parse_npy_header(std::span(bytes).first(static_cast<size_t>(length)), label_);
  }

  Array array(const NpyHeader& header, std::optional<DType> as) {
    check_npy_size(header, left_, label_);
    Array result(header.shape());
    read(result.bytes());
    std::byte more;  // the checksum is compared at the end
    if (zip_fread(stream_.get(), &more, 1) != 0)
      user_error("{}: is damaged: {}", label_, zip_file_strerror(stream_.get()));
    return finish_npy(header, std::move(result), label_, as);
  }

 private:
  void read(std::span<std::byte> to) {
    left_ -= static_cast<int64_t>(to.size());
    while (!to.empty()) {
      const zip_int64_t count = zip_fread(stream_.get(), to.data(), to.size());
      if (count < 0) user_error("{}: is damaged: {}", label_, zip_file_strerror(stream_.get()));
      if (count == 0) user_error("{}: ends {} bytes too early", label_, to.size());
      to = to.subspan(static_cast<size_t>(count));
    }
  }

  std::string label_;
  Stream stream_;
  int64_t left_ = 0;
};

std::string without_suffix(std::string name) {
  if (name.size() > 4 && name.compare(name.size() - 4, 4, ".npy") == 0)
    name.resize(name.size() - 4);
  return name;
}

}  // namespace

struct NpzFile::Impl {
  std::string path;
  Archive archive{nullptr, [](zip_t* a) {
                    if (a != nullptr) zip_discard(a);
                  }};
  std::vector<std::string> names;
  std::map<std::string, uint64_t> index;

  Member member(const std::string& name) const {
    const auto at = index.find(name);
    if (at == index.end())
      user_error("{}: has no array \"{}\"; it has {}", path, name, fmt::join(names, ", "));
    return {archive.get(), path, name, at->second};
  }
};

NpzFile::NpzFile(const std::string& path) : impl_(make_owned<Impl>()) {
  impl_->path = path;
  int code = 0;
  impl_->archive.reset(zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code));
  if (!impl_->archive) user_error("{}: cannot be read as npz: {}", path, text_of(code));
  const zip_int64_t count = zip_get_num_entries(impl_->archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<uint64_t>(i);
    const char* const raw = zip_get_name(impl_->archive.get(), index, 0);
    if (raw == nullptr) user_error("{}: entry {} has no name", path, i);
    impl_->names.push_back(without_suffix(raw));
    if (!impl_->index.emplace(impl_->names.back(), index).second)
      user_error("{}: has two arrays \"{}\"", path, impl_->names.back());
  }
}
NpzFile::~NpzFile() = default;
NpzFile::NpzFile(NpzFile&&) noexcept = default;
NpzFile& NpzFile::operator=(NpzFile&&) noexcept = default;

const std::vector<std::string>& NpzFile::names() const { return impl_->names; }
bool NpzFile::contains(const std::string& name) const { return impl_->index.contains(name); }
Shape NpzFile::shape(const std::string& name) const { return impl_->member(name).header().shape(); }

Array NpzFile::read(const std::string& name, std::optional<DType> as) const {
  Member member = impl_->member(name);
  const NpyHeader header = member.header();
  return member.array(header, as);
}

std::vector<std::pair<std::string, Array>> read_npz(const std::string& path) {
  const NpzFile file(path);
  std::vector<std::pair<std::string, Array>> arrays;
  for (const std::string& name : file.names()) arrays.emplace_back(name, file.read(name));
  return arrays;
}

}  // namespace gspmd
