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
  void read(Cursor& cursor, Metadata& metadata, bool names, int depth);
  void read_string(Cursor& cursor, Metadata& metadata, bool names, int depth);
  void read_inside(Cursor& cursor, Metadata& metadata, bool names, int depth);
  void read_word(Cursor& cursor, Metadata& metadata, bool names, int depth);

  const AttributeReader& attributes_;
  const Cursor& cursor_;
  std::unordered_map<std::string_view, Metadata> by_text_;
};

}  // namespace gspmd::stablehlo
