#include "gspmd/ir/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>

namespace gspmd {
namespace {

bool has_source(const Metadata& metadata) {
  return metadata.source_line > 0 && !metadata.source_file.empty();
}

bool has_place(const Metadata& metadata) { return metadata.text.known() || has_source(metadata); }

// The node itself, or the nearest that it holds or reads first and that has a place.
const Node& placed(const Node& node) {
  constexpr int kMostSteps = 100;  // the graph of a broken module may have a cycle
  const Node* at = &node;
  for (int step = 0; step < kMostSteps && !has_place(at->metadata); ++step) {
    const bool holds = at->is(Opcode::fusion) && !at->called.empty() && at->called[0] != nullptr &&
                       at->called[0]->root() != nullptr;
    if (!holds && at->operands().empty()) break;
    at = holds ? at->called[0]->root() : at->operand(0);
  }
  return *at;
}

}  // namespace

Site lasting_site(std::string_view file, int64_t line) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  const std::lock_guard lock(mutex);
  auto name = names.find(file);
  if (name == names.end()) name = names.emplace(file).first;
  return {name->c_str(),
          static_cast<int>(std::min<int64_t>(line, std::numeric_limits<int>::max()))};
}

std::string source_line(const Metadata& metadata) {
  if (metadata.source_file.empty()) return "";
  return fmt::format("{}:{}", *metadata.source_file, metadata.source_line);
}

Site place_of(const Node& node) {
  const Metadata& metadata = placed(node).metadata;
  if (metadata.text.known() || !has_place(metadata)) return metadata.text;
  return lasting_site(*metadata.source_file, metadata.source_line);
}

void add_place(Error& error, const Node& node) {
  if (error.site().known()) return;
  const Metadata& metadata = placed(node).metadata;
  if (!has_place(metadata)) return;
  const std::string source = has_source(metadata) ? source_line(metadata) : "";
  const bool says = std::string_view(error.what()).find(source) != std::string_view::npos;
  if (metadata.text.known())
    error.locate(says ? "" : fmt::format(", from {}", source), metadata.text);
  else if (!says)
    error.locate("", place_of(node));
}

}  // namespace gspmd
