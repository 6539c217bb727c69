#include "ir/stack_frames.h"

#include <charconv>

namespace gspmd {
namespace {

constexpr std::string_view kTables[] = {"FileNames", "FunctionNames", "FileLocations",
                                        "StackFrames"};

using FrameRow = std::map<std::string_view, int64_t>;

// {file_name_id=1 line=3}
FrameRow read_row(Lexer& lexer) {
  FrameRow row;
  lexer.expect("{", "before a table row");
  while (!lexer.accept("}")) {
    const std::string_view key = lexer.word("a field of a table row");
    lexer.expect("=", "after a field of a table row");
    row[key] = lexer.integer(key);
  }
  return row;
}

bool at_digit(Lexer& lexer) { return lexer.peek() >= '0' && lexer.peek() <= '9'; }

}  // namespace

bool StackFrames::read_table(Lexer& lexer) {
  std::string_view table;
  for (const std::string_view name : kTables)
    if (lexer.accept_word(name)) table = name;
  if (table.empty()) return false;
  while (at_digit(lexer)) {
    const int64_t id = lexer.integer("a table row");
    if (lexer.peek() == '"') {
      std::string text = lexer.quoted(table);
      if (table == "FileNames") files_[id] = std::move(text);
      continue;
    }
    FrameRow row = read_row(lexer);
    if (table == "FileLocations") locations_[id] = {row["file_name_id"], row["line"]};
    if (table == "StackFrames") frames_[id] = row["file_location_id"];
  }
  return true;
}

void StackFrames::resolve(Metadata& metadata) const {
  const auto reference = metadata.other.find("stack_frame_id");
  if (reference == metadata.other.end()) return;
  int64_t id = 0;
  const std::string& text = reference->second;
  std::from_chars(text.data(), text.data() + text.size(), id);
  const auto frame = frames_.find(id);
  if (frame == frames_.end()) return;
  const auto location = locations_.find(frame->second);
  if (location == locations_.end()) return;
  const auto file = files_.find(location->second.file);
  if (file == files_.end()) return;
  if (metadata.source_file.empty()) {
    metadata.source_file = file->second;
    metadata.source_line = location->second.line;
  }
  metadata.other.erase(reference->first);
}

}  // namespace gspmd
