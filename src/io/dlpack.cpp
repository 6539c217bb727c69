#include "gspmd/io/dlpack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

constexpr dlpack::Version kVersion{1, 1};

struct TypeRow {
  DType dtype;
  uint8_t code, bits;
};
constexpr TypeRow kTypes[] = {
    {DType::pred, 6, 8},        {DType::s8, 0, 8},          {DType::s16, 0, 16},
    {DType::s32, 0, 32},        {DType::s64, 0, 64},        {DType::u8, 1, 8},
    {DType::u16, 1, 16},        {DType::u32, 1, 32},        {DType::u64, 1, 64},
    {DType::f16, 2, 16},        {DType::f32, 2, 32},        {DType::f64, 2, 64},
    {DType::bf16, 4, 16},       {DType::c64, 5, 64},        {DType::c128, 5, 128},
    {DType::f8e3m4, 7, 8},      {DType::f8e4m3, 8, 8},      {DType::f8e4m3b11fnuz, 9, 8},
    {DType::f8e4m3fn, 10, 8},   {DType::f8e4m3fnuz, 11, 8}, {DType::f8e5m2, 12, 8},
    {DType::f8e5m2fnuz, 13, 8}, {DType::f8e8m0fnu, 14, 8},  {DType::f4e2m1fn, 17, 4},
    {DType::f6e2m3fn, 15, 6},   {DType::f6e3m2fn, 16, 6},   {DType::s1, 0, 1},
    {DType::s2, 0, 2},          {DType::s4, 0, 4},          {DType::u1, 1, 1},
    {DType::u2, 1, 2},          {DType::u4, 1, 4},
};

// Somebody else's elements, given back when nobody shares them any more.
class Foreign final : public ArrayStorage {
 public:
  Foreign(std::span<std::byte> bytes, std::shared_ptr<void> owner, bool read_only)
      : bytes_(bytes), owner_(std::move(owner)), read_only_(read_only) {}
  std::span<std::byte> host_bytes() override { return bytes_; }
  bool on_host() const override { return true; }
  bool read_only() const { return read_only_; }

 private:
  std::span<std::byte> bytes_;
  std::shared_ptr<void> owner_;
  bool read_only_;
};

DType dtype_of_tensor(const dlpack::Tensor& tensor, bool padded) {
  const dlpack::DataType& type = tensor.dtype;
  for (const TypeRow& row : kTypes)
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) {
      if (row.bits < 8 && !padded)
        user_error(
            "from_dlpack: elements of {} lie packed in bytes; give each a byte of its own, and say "
            "so in the flags of a versioned tensor",
            dtype_name(row.dtype));
      return row.dtype;
    }
  user_error(
      "from_dlpack: no element type is of code {} with {} bits in {} lanes; convert the array "
      "before it is handed over",
      int{type.code}, int{type.bits}, type.lanes);
}

Shape shape_of(const dlpack::Tensor& tensor, bool padded) {
  if (tensor.device.type != dlpack::kCpu && tensor.device.type != dlpack::kCudaHost &&
      tensor.device.type != dlpack::kRocmHost)
    user_error(
        "from_dlpack: the elements are on a device of type {}, not in host memory; copy them there "
        "first",
        tensor.device.type);
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr))
    user_error("from_dlpack: {} dims without sizes", tensor.ndim);
  Shape shape(dtype_of_tensor(tensor, padded), {});
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] < 0) user_error("from_dlpack: dim {} has {} elements", d, tensor.shape[d]);
    shape.dims.push_back(tensor.shape[d]);
  }
  if (shape.bytes() == std::numeric_limits<int64_t>::max())
    user_error("from_dlpack: {} has more bytes than can be addressed", to_string(shape));
  if (tensor.data == nullptr && shape.elements_count() > 0)
    user_error("from_dlpack: {} without elements", to_string(shape));
  return shape;
}

std::byte* first_byte(const dlpack::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

// Of compact elements.
bool all_truth_values(const dlpack::Tensor& tensor, const Shape& shape) {
  const std::byte* const first = first_byte(tensor);
  return std::all_of(first, first + shape.bytes(), [](std::byte b) { return b <= std::byte{1}; });
}

// What the way of the elements in memory says of sharing them; "": nothing against it.
std::string problem_of(const dlpack::Tensor& tensor, const Shape& shape) {
  if (shape.elements_count() == 0) return "";
  const auto size = static_cast<uint64_t>(dtype_size(shape.dtype));
  const uint64_t alignment = is_complex(shape.dtype) ? size / 2 : size;
  if (reinterpret_cast<uintptr_t>(first_byte(tensor)) % alignment != 0)
    return "its elements are not aligned";
  const Dims wanted = row_major_strides(shape.dims);
  for (size_t d = 0; d < wanted.size() && tensor.strides != nullptr; ++d)
    if (shape.dims[d] != 1 && tensor.strides[d] != wanted[d])
      return fmt::format("dim {} has a stride of {} elements, {} of a compact array", d,
                         tensor.strides[d], wanted[d]);
  if (shape.dtype == DType::pred && !all_truth_values(tensor, shape))
    return "it has truth values other than 0 and 1";
  return "";
}

Array copied(const dlpack::Tensor& tensor, const Shape& shape) {
  Array array(shape);
  const auto size = static_cast<size_t>(dtype_size(shape.dtype));
  const Dims compact = row_major_strides(shape.dims);
  Dims index(shape.dims.size(), 0);
  const std::byte* from = first_byte(tensor);
  const auto stride = [&](size_t d) {
    return (tensor.strides == nullptr ? compact[d] : tensor.strides[d]) *
           static_cast<int64_t>(size);
  };
  std::byte* to = array.bytes().data();
  for (int64_t i = 0; i < array.size(); ++i, to += size) {
    std::memcpy(to, from, size);
    if (shape.dtype == DType::pred && *to != std::byte{0}) *to = std::byte{1};
    for (size_t d = index.size(); d-- > 0;) {
      from += stride(d);
      if (++index[d] < shape.dims[d]) break;
      from -= stride(d) * shape.dims[d];
      index[d] = 0;
    }
  }
  return array;
}

template <class Managed>
void give_back(Managed* tensor) {
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
}

template <class Managed>
Array import(Managed* tensor, uint64_t flags, DlpackCopy copy) {
  const Shape shape = shape_of(tensor->tensor, (flags & dlpack::kSubbytePadded) != 0);
  const bool read_only = (flags & dlpack::kReadOnly) != 0;
  const std::string problem = problem_of(tensor->tensor, shape);
  if (copy == DlpackCopy::never && !problem.empty())
    user_error("from_dlpack: {} cannot be shared: {}; allow a copy", to_string(shape), problem);
  if (copy == DlpackCopy::always || !problem.empty() ||
      (read_only && copy == DlpackCopy::if_needed)) {
    Array array = copied(tensor->tensor, shape);
    give_back(tensor);
    return array;
  }
  std::shared_ptr<void> owner(tensor, [](void* p) { give_back(static_cast<Managed*>(p)); });
  const std::span bytes(first_byte(tensor->tensor), static_cast<size_t>(shape.bytes()));
  return Array(shape, std::make_shared<Foreign>(bytes, std::move(owner), read_only));
}

// What a handed-out tensor lives on.
template <class Managed>
struct Exported {
  Array array;
  Dims shape, strides;
  Managed managed;
};

template <class Managed>
Managed* exported(const Array& array, bool may_be_padded) {
  const DType dtype = array.dtype();
  const TypeRow* row = nullptr;
  for (const TypeRow& candidate : kTypes)
    if (candidate.dtype == dtype) row = &candidate;
  if (array.empty() || row == nullptr)
    user_error("to_dlpack: {} has no elements that others could read",
               array.empty() ? "an empty Array" : to_string(array.shape()));
  if (row->bits < 8 && !may_be_padded)
    user_error("to_dlpack: elements of {} have a byte each, which only a versioned tensor can say",
               dtype_name(dtype));
  const std::span<std::byte> bytes = array.bytes();
  auto self = std::make_unique<Exported<Managed>>();
  self->array = array;
  self->shape = array.dims();
  self->strides = row_major_strides(array.dims());
  dlpack::Tensor& tensor = self->managed.tensor;
  tensor.data = bytes.data();
  tensor.ndim = static_cast<int32_t>(self->shape.size());
  tensor.dtype = {row->code, row->bits, 1};
  tensor.shape = self->shape.data();
  tensor.strides = self->strides.data();
  self->managed.manager_ctx = self.get();
  self->managed.deleter = [](Managed* managed) {
    delete static_cast<Exported<Managed>*>(managed->manager_ctx);
  };
  return &self.release()->managed;
}

}  // namespace

Array from_dlpack(dlpack::ManagedTensor* tensor, DlpackCopy copy) {
  if (tensor == nullptr) user_error("from_dlpack: there is no tensor");
  return import(tensor, 0, copy);
}

Array from_dlpack(dlpack::ManagedTensorVersioned* tensor, DlpackCopy copy) {
  if (tensor == nullptr) user_error("from_dlpack: there is no tensor");
  if (tensor->version.major != kVersion.major)
    user_error("from_dlpack: the tensor is of DLPack {}.{}; {}.x is understood",
               tensor->version.major, tensor->version.minor, kVersion.major);
  return import(tensor, tensor->flags, copy);
}

dlpack::ManagedTensor* to_dlpack(const Array& array) {
  return exported<dlpack::ManagedTensor>(array, false);
}

dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Array& array) {
  auto* const managed = exported<dlpack::ManagedTensorVersioned>(array, true);
  managed->version = kVersion;
  if (managed->tensor.dtype.bits < 8) managed->flags |= dlpack::kSubbytePadded;
  const auto* const foreign = dynamic_cast<const Foreign*>(array.storage().get());
  if (foreign != nullptr && foreign->read_only()) managed->flags |= dlpack::kReadOnly;
  return managed;
}

}  // namespace gspmd
