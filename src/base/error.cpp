#include "gspmd/base/error.h"

namespace gspmd {
namespace {

std::string with_site(std::string message, Site site) {
  if (!site.known()) return message;
  return fmt::format("{} ({}:{})", message, site.file, site.line);
}

}  // namespace

Error::Error(std::string message, Site site)
    : std::runtime_error(with_site(std::move(message), site)), site_(site) {}

void Error::locate(std::string_view more, Site site) {
  std::runtime_error::operator=(std::runtime_error(with_site(what() + std::string(more), site)));
  site_ = site;
}

}  // namespace gspmd
