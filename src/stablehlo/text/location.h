#pragma once

#include <string_view>
#include <unordered_map>

#include "gspmd/ir/attributes.h"
#include "stablehlo/text/attribute.h"

namespace gspmd::stablehlo {

// What locations say to HLO's metadata (names, files and lines).
class Locations {
 public:
  Locations(const AttributeReader& attributes, const Cursor& cursor)
      : attributes_(attributes), cursor_(cursor) {}
  // Of what stands in loc(...). The same text is read once.
  const Metadata& metadata(std::string_view location);

 private:
  // `names`: whether names met on this way are those of the op; `parts`: how many have been read.
  void read(Cursor& cursor, Metadata& metadata, bool names, int depth, int& parts);
  void read_string(Cursor& cursor, Metadata& metadata, bool names, int depth, int& parts);
  void read_inside(Cursor& cursor, Metadata& metadata, bool names, int depth, int& parts);
  void read_word(Cursor& cursor, Metadata& metadata, bool names, int depth, int& parts);

  const AttributeReader& attributes_;
  const Cursor& cursor_;
  std::unordered_map<std::string_view, Metadata> by_text_;
  const std::pair<const std::string_view, Metadata>* last_ = nullptr;
};

}  // namespace gspmd::stablehlo
