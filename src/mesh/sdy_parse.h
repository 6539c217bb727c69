#pragma once

#include <string>
#include <string_view>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sdy.h"
#include "mesh/text_cursor.h"

namespace gspmd {

// Reads the attributes of the dialect `sdy`. Failures are UserErrors with the column.
class SdyParser {
 public:
  explicit SdyParser(std::string_view text) : text_(text) {}

  [[noreturn]] void fail_at(size_t column, const std::string& what) const;
  char peek();
  bool accept(std::string_view marks);
  void expect(char mark, const char* place);
  void end();  // nothing may follow
  int64_t integer(const char* what);
  std::string string();
  std::string symbol(const char* what);
  size_t column() const { return text_.column(); }

  SdyMesh mesh();  // <["x"=2], device_ids=[..]>
  SdySharding sharding(SdyMeshes& meshes);

 private:
  void device_ids(SdyMesh& mesh);
  SdyAxis axis_of(const SdyMesh& mesh);
  SdyAxes axis_list(const SdyMesh& mesh, bool* open);
  SdyDim dim(const SdyMesh& mesh);
  void sets(SdySharding& sharding, const SdyMesh& mesh);

  TextCursor text_;
  SdyAxes taken_;  // by the sharding that is being read
};

}  // namespace gspmd
