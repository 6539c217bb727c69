#include "gspmd/ir/opcode.h"

#include <array>
#include <string_view>
#include <unordered_map>

namespace gspmd {
namespace {

constexpr std::array kNames = {
#define V(name, text) std::string_view(text),
    GSPMD_OPCODES(V)
#undef V
};

}  // namespace

std::string_view opcode_name(Opcode opcode) { return kNames[static_cast<size_t>(opcode)]; }

std::optional<Opcode> opcode_from_name(std::string_view name) {
  static const auto* const index = [] {
    auto* map = new std::unordered_map<std::string_view, Opcode>;
    for (size_t i = 0; i < kNames.size(); ++i) map->emplace(kNames[i], static_cast<Opcode>(i));
    return map;
  }();
  const auto found = index->find(name);
  if (found == index->end()) return std::nullopt;
  return found->second;
}

int64_t opcode_count() { return static_cast<int64_t>(kNames.size()); }

}  // namespace gspmd
