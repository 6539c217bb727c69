#include "passes/shardy/annotation.h"

#include "passes/shardy/program_builder.h"

namespace gspmd {
namespace {

const std::string* said_in_sdy(const Node& node) {
  const std::string* text = attribute(node, kSdySharding);
  return text != nullptr ? text : attribute(node, kXlaSdySharding);
}

}  // namespace

bool is_annotated(const Node& node) { return node.sharding || said_in_sdy(node) != nullptr; }

void annotate_instead(Node& node, std::optional<Sharding> sharding) {
  node.frontend_attributes.erase(kSdySharding);
  node.frontend_attributes.erase(kXlaSdySharding);
  node.sharding = std::move(sharding);
}

std::string annotation_text(const Node& node) {
  const std::string* const text = said_in_sdy(node);
  if (text != nullptr) return text->starts_with("#sdy.sharding<") ? text->substr(13) : *text;
  return node.sharding ? to_string(*node.sharding) : std::string();
}

}  // namespace gspmd
