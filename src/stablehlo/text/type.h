#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gspmd/base/shape.h"
#include "stablehlo/text/arena.h"
#include "stablehlo/text/cursor.h"

namespace gspmd::stablehlo {

// The size of a dim that a type leaves open, `?` without a bound.
inline constexpr int64_t kUnknown = -1;

// A type as HLO has it. `tensor<?x3xf32>` has the dim kUnknown.
struct Type {
  Shape shape;
  bool is_future = false;
  bool is_function = false;
  std::string refusal;                // why HLO has none; empty where it has
  std::string_view text;              // as written
  List<const Type*> inputs, results;  // of a function
  // Whether every size is known and HLO has the type.
  bool is_static() const { return known; }
  bool known = true;
};

// Whether a value of `shape` may stand where `type` is declared: equal, unknown dims apart.
bool fits(const Shape& shape, const Type& type);

// The types of one module: each text is read once.
class Types {
 public:
  // Reads the type at the cursor.
  const Type* read(Cursor& cursor);
  // "!x = type": what the alias stands for is read when it is first used.
  void add_alias(std::string_view name, size_t position);
  void know_aliases_of(const Types& other);
  // A type that is not written.
  const Type* of(Shape shape);
  const Type* function(const List<const Type*>& inputs, const List<const Type*>& results);

 private:
  const Type* read_new(Cursor& cursor);
  const Type* read_alias(Cursor& cursor, std::string_view name, size_t position);
  void read_tensor(Cursor& cursor, Type& type);
  void read_tuple(Cursor& cursor, Type& type);
  void read_function(Cursor& cursor, Type& type);
  DType read_element(Cursor& cursor, Type& type);
  void read_bounds(Cursor& cursor, Type& type);

  struct Alias {
    size_t position = 0;
    bool open = false;  // being read
    const Type* type = nullptr;
  };
  Arena* const arena_ = Arena::current();  // of what lives as long as this
  std::unordered_map<std::string_view, const Type*> by_text_;
  std::unordered_map<std::string_view, Alias> aliases_;
  std::vector<std::unique_ptr<Type>> owned_;
  int depth_ = 0;
};

// "tensor<2x3xf32>", "tuple<tensor<f32>>", "!stablehlo.token". UserError: a type that StableHLO has
// no word for.
std::string type_text(const Shape& shape);
std::string element_text(DType dtype);

}  // namespace gspmd::stablehlo
