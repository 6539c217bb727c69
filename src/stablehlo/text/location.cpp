#include "stablehlo/text/location.h"

namespace gspmd::stablehlo {
namespace {

// Deeper ones say nothing more.
constexpr int kMostLocations = 10000;

}  // namespace

const Metadata& Locations::metadata(std::string_view location) {
  // Most ops have that of the one before them.
  if (last_ != nullptr && location == last_->first) return last_->second;
  const auto [found, is_new] = by_text_.try_emplace(location);
  last_ = &*found;
  if (is_new && !location.empty()) {
    const auto begin = static_cast<size_t>(location.data() - cursor_.text().data());
    Cursor cursor = cursor_.sub(begin, begin + location.size());
    int parts = 0;
    read(cursor, found->second, true, 0, parts);
  }
  return found->second;
}

void Locations::read(Cursor& cursor, Metadata& metadata, bool names, int depth, int& parts) {
  if (depth > kMaxDepth || ++parts > kMostLocations || cursor.at_end()) return;
  if (cursor.accept("#")) {
    const std::string_view name = cursor.suffix_id("a location");
    const size_t at = attributes_.alias_position(name);
    if (at == std::string_view::npos) return;
    Cursor alias = cursor_.from(at);
    if (!alias.accept_word("loc") || !alias.accept("(")) return;
    return read(alias, metadata, names, depth + 1, parts);
  }
  if (cursor.peek() == '"') return read_string(cursor, metadata, names, depth, parts);
  read_word(cursor, metadata, names, depth, parts);
}

// "name", "name"(child), "file":1:2, "file":1:2 to 3:4.
void Locations::read_string(Cursor& cursor, Metadata& metadata, bool names, int depth, int& parts) {
  std::string text = cursor.quoted("a location");
  if (!cursor.accept(":")) {
    const bool is_type = text.size() > 1 && text.ends_with(':');
    if (names && is_type && metadata.op_type.empty() && metadata.op_name.empty())
      metadata.op_type = text.substr(0, text.size() - 1);
    else if (names && !is_type && metadata.op_name.empty())
      metadata.op_name = std::move(text);
    if (cursor.accept("(")) read_inside(cursor, metadata, names, depth, parts);
    return;
  }
  const int64_t line = cursor.integer("a line");
  const int64_t column = cursor.accept(":") ? cursor.integer("a column") : 0;
  int64_t end_line = 0, end_column = 0;
  if (cursor.accept_word("to")) {
    end_line = line;
    if (cursor.peek() != ':') end_line = cursor.integer("a line");
    if (cursor.accept(":")) end_column = cursor.integer("a column");
  }
  if (!metadata.source_file.empty()) return;
  metadata.source_file = std::move(text);
  metadata.source_line = line;
  const auto other = [&](const char* key, int64_t value) {
    if (value > 0) metadata.other[key] = std::to_string(value);
  };
  other("source_column", column);
  other("source_end_line", end_line);
  other("source_end_column", end_column);
}

// What stands in parentheses; the cursor stands behind them then.
void Locations::read_inside(Cursor& cursor, Metadata& metadata, bool names, int depth, int& parts) {
  const size_t begin = cursor.position();
  cursor.balanced("a location");
  Cursor inside = cursor.sub(begin, cursor.position());
  read(inside, metadata, names, depth + 1, parts);
  cursor.accept(")");
}

void Locations::read_word(Cursor& cursor, Metadata& metadata, bool names, int depth, int& parts) {
  const std::string_view word = cursor.peek_word();
  if (word.empty()) return;
  cursor.word("a location");
  // Of a call the inner side: the outer one says where it is called.
  if (word == "callsite" && cursor.accept("("))
    return read_inside(cursor, metadata, names, depth, parts);
  if (word != "fused") return;
  if (cursor.accept("<")) {
    cursor.balanced("a location");
    cursor.accept(">");
  }
  if (!cursor.accept("[")) return;
  std::string joined;
  while (!cursor.at_end() && cursor.peek() != ']') {
    Metadata one;
    read(cursor, one, names, depth + 1, parts);
    if (!one.op_name.empty()) joined += (joined.empty() ? "" : ";") + *one.op_name;
    if (metadata.op_type.empty()) metadata.op_type = one.op_type;
    if (metadata.source_file.empty()) {
      metadata.source_file = one.source_file;
      metadata.source_line = one.source_line;
      metadata.other = one.other;
    }
    if (!cursor.accept(",")) break;
  }
  if (names && metadata.op_name.empty()) metadata.op_name = joined;
}

}  // namespace gspmd::stablehlo
