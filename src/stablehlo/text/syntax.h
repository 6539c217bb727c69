#pragma once

#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stablehlo/text/attribute.h"

namespace gspmd::stablehlo {

// "%0#1": a use of a value.
struct Use {
  std::string_view name;
  int64_t index = 0;
  size_t position = 0;
};

// "%0:2 =": names that an op gives to its results.
struct ResultName {
  std::string_view name;
  int64_t count = 1;
  size_t position = 0;
};

struct Op;

// An argument of a block or function.
struct Argument {
  std::string_view name;
  const Type* type = nullptr;
  Dictionary attributes;
  std::string_view location;  // what stands in loc(...)
  size_t position = 0;
};

// Ops in order, each at a place of its own.
class Ops {
 public:
  Ops() = default;
  Ops(Ops&& other) noexcept : ops_(std::exchange(other.ops_, {})) {}
  Ops& operator=(Ops&& other) noexcept {
    std::swap(ops_, other.ops_);
    return *this;
  }
  ~Ops();

  Op& add();  // A new one behind the others.
  size_t size() const { return ops_.size(); }
  bool empty() const { return ops_.empty(); }
  Op& operator[](size_t i) const { return *ops_[i]; }

  template <class Element>
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    using pointer = Element*;
    using reference = Element&;
    Iterator() = default;
    explicit Iterator(Op* const* at) : at_(at) {}
    Element& operator*() const { return **at_; }
    Element* operator->() const { return *at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(at_++); }
    bool operator==(const Iterator&) const = default;

   private:
    Op* const* at_ = nullptr;
  };
  Iterator<const Op> begin() const { return Iterator<const Op>(ops_.data()); }
  Iterator<const Op> end() const { return Iterator<const Op>(ops_.data() + ops_.size()); }

 private:
  List<Op*> ops_;
};

// One block.
struct Region {
  List<Argument> arguments;
  Ops ops;
  size_t position = 0;
  bool is_applied = false;  // of one op, as "applies stablehlo.add" says it
};

struct OpRow;

// An op in its generic form; pretty forms are read into the same.
struct Op {
  std::string_view name;  // "stablehlo.add"
  size_t position = 0;
  const OpRow* row = nullptr;
  List<ResultName> results;
  List<Use> operands;
  Dictionary attributes;
  List<Region> regions;
  List<const Type*> operand_types, result_types;
  std::string_view location;

  const Attribute* find(std::string_view attribute) const;  // marks it as used
  const NamedAttribute* peek(std::string_view attribute) const;
  void set(std::string_view attribute, Attribute value);
};

// A function's body that is still text.
struct UnreadBody {
  size_t begin = 0, end = 0;               // in the text, without the braces
  size_t lines = 0;                        // in it
  std::vector<std::string_view> mentions;  // names behind an @, in order
};

struct Function {
  std::string name;
  std::string_view visibility;  // "private", "public", "nested" or empty
  Region body;
  bool has_body = false;
  std::optional<UnreadBody> unread;  // of which `body` has the arguments only
  List<const Type*> result_types;
  std::vector<Dictionary> result_attributes;  // one per result
  Dictionary attributes;
  std::string_view location;
  size_t position = 0;
};

struct Mesh {
  std::string name;
  std::string text;  // "#sdy.mesh<["x"=2]>"
  size_t position = 0;
};

// A module as it is written.
struct Syntax {
  Syntax(std::string_view text, std::string_view file, size_t begin, size_t end)
      : cursor(text, file, begin, end), attributes_table(types) {}
  // To read a part of the module's text anew, knowing its aliases.
  Syntax(const Cursor& part, const Syntax& module) : cursor(part), attributes_table(types) {
    types.know_aliases_of(module.types);
    attributes_table.know_aliases_of(module.attributes_table);
  }
  Syntax(const Syntax&) = delete;
  Syntax& operator=(const Syntax&) = delete;

  Cursor cursor;
  Types types;
  AttributeReader attributes_table;
  std::string name;
  Dictionary attributes;
  std::vector<Mesh> meshes;
  std::vector<std::unique_ptr<Function>> functions;
  std::unordered_map<std::string, Function*> by_name;
};

// Whether the ops of @main are read with all others, or are left for the one who makes HLO of them
// to read, each when it is needed.
enum class Reading : bool { whole, main_later };

// Reads text[begin, end), one module. Where @main ends is told by the lines' indentation when it is
// left for later: the one who reads it sees whether it ends there.
std::unique_ptr<Syntax> read_syntax(std::string_view text, std::string_view file, size_t begin,
                                    size_t end, Reading reading = Reading::whole);

}  // namespace gspmd::stablehlo
