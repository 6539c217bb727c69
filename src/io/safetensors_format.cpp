#include "io/safetensors_format.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL  // nothing to link against
#include <xxhash.h>

#include <algorithm>
#include <memory>

namespace gspmd::io {

namespace {

struct Name {
  DType dtype;
  std::string_view name;
};
constexpr Name kNames[] = {
    {DType::pred, "BOOL"},         {DType::s8, "I8"},
    {DType::s16, "I16"},           {DType::s32, "I32"},
    {DType::s64, "I64"},           {DType::u8, "U8"},
    {DType::u16, "U16"},           {DType::u32, "U32"},
    {DType::u64, "U64"},           {DType::f16, "F16"},
    {DType::bf16, "BF16"},         {DType::f32, "F32"},
    {DType::f64, "F64"},           {DType::c64, "C64"},
    {DType::f8e4m3fn, "F8_E4M3"},  {DType::f8e5m2, "F8_E5M2"},
    {DType::f8e8m0fnu, "F8_E8M0"},
};

}  // namespace

std::string_view format_name(DType dtype) {
  for (const Name& known : kNames)
    if (known.dtype == dtype) return known.name;
  return "";
}

std::optional<DType> dtype_of_format(std::string_view name) {
  for (const Name& known : kNames)
    if (known.name == name) return known.dtype;
  return std::nullopt;
}

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->hash); }
Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->hash, bytes.data(), bytes.size());
}

std::string Checksum::digits() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(&state_->hash));
}

size_t header_digits(std::string_view header) {
  const std::string key = fmt::format("\"{}\":\"", kHeaderChecksum);
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return at;
  const size_t digits = at + key.size();
  return digits + kChecksumDigits < header.size() && header[digits + kChecksumDigits] == '"'
             ? digits
             : std::string_view::npos;
}

std::string header_checksum(std::string header) {
  const auto digits = header.begin() + static_cast<int64_t>(header_digits(header));
  std::fill(digits, digits + static_cast<int64_t>(kChecksumDigits), '0');
  const uint64_t length = header.size();
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(&length, 1)));
  checksum.add(std::as_bytes(std::span(header)));
  return checksum.digits();
}

}  // namespace gspmd::io
