#include <set>

#include "ir/parse_attributes.h"

namespace gspmd {
namespace {

struct MetadataString {
  std::string_view name;
  Rare<std::string> Metadata::*field;
};
constexpr MetadataString kMetadataStrings[] = {{"op_type", &Metadata::op_type},
                                               {"op_name", &Metadata::op_name},
                                               {"source_file", &Metadata::source_file}};

bool read_known_metadata(Lexer& lexer, std::string_view key, Metadata& metadata) {
  for (const MetadataString& row : kMetadataStrings)
    if (row.name == key) {
      metadata.*row.field = lexer.quoted(key);
      return true;
    }
  if (key != "source_line") return false;
  metadata.source_line = lexer.integer(key);
  return true;
}

// Whether the text reads as one word.
bool is_word(std::string_view text) {
  Lexer lexer(text, "");
  return !text.empty() && text[0] != '%' && lexer.peek_name() == text;
}

}  // namespace

Metadata read_metadata(Lexer& lexer) {
  Metadata metadata;
  std::set<std::string_view> seen;
  lexer.expect("{", "before metadata");
  while (!lexer.accept("}")) {
    lexer.accept(",");
    const size_t at = lexer.position();
    const std::string_view key = lexer.word("a metadata field");
    if (!seen.insert(key).second) lexer.fail(at, "metadata: {} is given twice", key);
    lexer.expect("=", "after a metadata field");
    if (!read_known_metadata(lexer, key, metadata))
      metadata.other.emplace(key, tidy(lexer.raw_value(key)));
  }
  return metadata;
}

std::string print_metadata(const Metadata& metadata) {
  std::string text;
  const auto add = [&](std::string_view key, std::string_view value) {
    fmt::format_to(std::back_inserter(text), "{}{}={}", text.empty() ? "" : " ", key, value);
  };
  for (const MetadataString& row : kMetadataStrings)
    if (!(*(metadata.*row.field)).empty()) add(row.name, quote(*(metadata.*row.field)));
  if (metadata.source_line != 0) add("source_line", fmt::format("{}", metadata.source_line));
  for (const auto& [key, value] : metadata.other) add(key, value);
  return text.empty() ? text : fmt::format("{{{}}}", text);
}

std::map<std::string, std::string> read_frontend_attributes(Lexer& lexer) {
  std::map<std::string, std::string> attributes;
  lexer.expect("{", "before frontend_attributes");
  while (!lexer.accept("}")) {
    if (!attributes.empty()) lexer.expect(",", "between frontend attributes");
    const size_t at = lexer.position();
    const std::string key = lexer.peek() == '"' ? lexer.quoted("a frontend attribute")
                                                : std::string(lexer.word("a frontend attribute"));
    lexer.expect("=", "after the name of a frontend attribute");
    std::string value = lexer.peek() == '"' ? lexer.quoted(key) : tidy(lexer.raw_value(key));
    if (!attributes.emplace(key, std::move(value)).second)
      lexer.fail(at, "frontend_attributes: {} is given twice", key);
  }
  return attributes;
}

std::string print_frontend_attributes(const std::map<std::string, std::string>& attributes) {
  std::string text = "{";
  for (const auto& [key, value] : attributes)
    fmt::format_to(std::back_inserter(text), "{}{}={}", text.size() > 1 ? "," : "",
                   is_word(key) ? key : quote(key), quote(value));
  return text + "}";
}

std::vector<Alias> read_aliases(Lexer& lexer) {
  std::vector<Alias> aliases;
  lexer.expect("{", "before input_output_alias");
  while (!lexer.accept("}")) {
    if (!aliases.empty()) lexer.expect(",", "between aliases");
    Alias& alias = aliases.emplace_back();
    alias.output = read_dims(lexer, "an output index");
    lexer.expect(":", "after an output index");
    if (!lexer.accept("(")) {  // the short form, {0}: 1
      alias.parameter = lexer.integer("the parameter of an alias");
      continue;
    }
    alias.parameter = lexer.integer("the parameter of an alias");
    if (lexer.accept(",")) alias.parameter_index = read_dims(lexer, "a parameter index");
    if (lexer.accept(",")) {
      const size_t at = lexer.position();
      const std::string_view kind = lexer.word("may-alias or must-alias");
      if (kind != "may-alias" && kind != "must-alias")
        lexer.fail(at, "\"{}\" is no kind of alias; use may-alias or must-alias", kind);
      alias.must_alias = kind == "must-alias";
    }
    lexer.expect(")", "after the parameter of an alias");
  }
  return aliases;
}

std::string print_aliases(const std::vector<Alias>& aliases) {
  std::string text = "{";
  for (const Alias& alias : aliases)
    fmt::format_to(std::back_inserter(text), "{}{{{}}}: ({}, {{{}}}, {})",
                   text.size() > 1 ? ", " : " ", fmt::join(alias.output, ","), alias.parameter,
                   fmt::join(alias.parameter_index, ","),
                   alias.must_alias ? "must-alias" : "may-alias");
  return text + " }";
}

}  // namespace gspmd
