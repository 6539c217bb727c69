#include "gspmd/io/dlpack.h"

#include <catch2/catch.hpp>
#include <complex>
#include <cstddef>
#include <vector>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

using Catch::Matchers::Contains;

// A tensor of somebody else's, who counts how often it came back.
template <class Managed>
struct Foreign {
  std::vector<int64_t> shape, strides;
  Managed managed = {};
  int returned = 0;

  Foreign(void* data, dlpack::DataType dtype, std::vector<int64_t> sizes,
          std::vector<int64_t> steps = {})
      : shape(std::move(sizes)), strides(std::move(steps)) {
    managed.tensor.data = data;
    managed.tensor.ndim = static_cast<int32_t>(shape.size());
    managed.tensor.dtype = dtype;
    managed.tensor.shape = shape.data();
    managed.tensor.strides = strides.empty() ? nullptr : strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* m) { ++static_cast<Foreign*>(m->manager_ctx)->returned; };
  }
};
using Plain = Foreign<dlpack::ManagedTensor>;
using Versioned = Foreign<dlpack::ManagedTensorVersioned>;

constexpr dlpack::DataType kF32{2, 32, 1};

std::vector<double> values(const Array& array) {
  std::vector<double> out;
  for (int64_t i = 0; i < array.size(); ++i) out.push_back(array.at(i));
  return out;
}

}  // namespace

TEST_CASE("dlpack: the structs lie in memory as DLPack's", "[dlpack]") {
  using dlpack::ManagedTensor;
  using dlpack::ManagedTensorVersioned;
  using dlpack::Tensor;
  CHECK(sizeof(Tensor) == 48);
  CHECK(offsetof(Tensor, device) == 8);
  CHECK(offsetof(Tensor, ndim) == 16);
  CHECK(offsetof(Tensor, dtype) == 20);
  CHECK(offsetof(Tensor, shape) == 24);
  CHECK(offsetof(Tensor, strides) == 32);
  CHECK(offsetof(Tensor, byte_offset) == 40);
  CHECK(sizeof(ManagedTensor) == 64);
  CHECK(offsetof(ManagedTensor, manager_ctx) == 48);
  CHECK(offsetof(ManagedTensor, deleter) == 56);
  CHECK(sizeof(ManagedTensorVersioned) == 80);
  CHECK(offsetof(ManagedTensorVersioned, manager_ctx) == 8);
  CHECK(offsetof(ManagedTensorVersioned, deleter) == 16);
  CHECK(offsetof(ManagedTensorVersioned, flags) == 24);
  CHECK(offsetof(ManagedTensorVersioned, tensor) == 32);
}

TEST_CASE("dlpack: a compact tensor is shared, and given back with the last copy", "[dlpack]") {
  std::vector<float> elements = {1, 2, 3, 4, 5, 6, 7};
  Plain theirs(elements.data(), kF32, {2, 3}, {3, 1});
  theirs.managed.tensor.byte_offset = 4;
  {
    Array array = from_dlpack(&theirs.managed);
    CHECK(array.shape() == Shape(DType::f32, {2, 3}));
    CHECK(values(array) == std::vector<double>{2, 3, 4, 5, 6, 7});
    elements[3] = 40;
    CHECK(array.at(2) == 40);
    array.data<float>()[0] = 20;
    CHECK(elements[1] == 20);
    const Array copy = array;
    array = Array();
    CHECK(theirs.returned == 0);
    CHECK(copy.at(0) == 20);
  }
  CHECK(theirs.returned == 1);
}

TEST_CASE("dlpack: strides of dims of one element, and of no elements, do not count", "[dlpack]") {
  std::vector<float> elements = {1, 2, 3};
  Plain row(elements.data(), kF32, {1, 3, 1}, {77, 1, -5});
  CHECK(from_dlpack(&row.managed, DlpackCopy::never).data<float>().data() == elements.data());
  Plain none(nullptr, kF32, {3, 0}, {5, 9});
  CHECK(from_dlpack(&none.managed, DlpackCopy::never).size() == 0);
  Plain scalar(elements.data() + 2, kF32, {});
  CHECK(from_dlpack(&scalar.managed).item() == 3);
}

TEST_CASE("dlpack: other strides are copied, or refused where nothing may be", "[dlpack]") {
  std::vector<float> elements = {1, 2, 3, 4, 5, 6};
  Plain columns(elements.data(), kF32, {3, 2}, {1, 3});
  CHECK_THROWS_WITH(
      from_dlpack(&columns.managed, DlpackCopy::never),
      Contains(
          "f32[3,2] cannot be shared: dim 0 has a stride of 1 elements, 2 of a compact array"));
  CHECK(columns.returned == 0);
  const Array transposed = from_dlpack(&columns.managed);
  CHECK(columns.returned == 1);
  CHECK(values(transposed) == std::vector<double>{1, 4, 2, 5, 3, 6});
  Plain backwards(elements.data() + 5, kF32, {3}, {-2});
  CHECK(values(from_dlpack(&backwards.managed)) == std::vector<double>{6, 4, 2});
  Plain repeated(elements.data(), kF32, {2, 2}, {0, 1});
  CHECK(values(from_dlpack(&repeated.managed)) == std::vector<double>{1, 2, 1, 2});
  Plain odd(reinterpret_cast<std::byte*>(elements.data()) + 1, kF32, {2});
  CHECK_THROWS_WITH(from_dlpack(&odd.managed, DlpackCopy::never), Contains("are not aligned"));
  CHECK(from_dlpack(&odd.managed).size() == 2);
}

TEST_CASE("dlpack: read-only elements are copied, or shared by who promises", "[dlpack]") {
  std::vector<float> elements = {1, 2};
  Versioned theirs(elements.data(), kF32, {2});
  theirs.managed.flags = dlpack::kReadOnly;
  Array copied = from_dlpack(&theirs.managed);
  CHECK(theirs.returned == 1);
  copied.set(0, 9);
  CHECK(elements[0] == 1);
  {
    const Array shared = from_dlpack(&theirs.managed, DlpackCopy::never);
    CHECK(shared.data<float>().data() == elements.data());
    auto* const again = to_dlpack_versioned(shared);
    CHECK(again->flags == dlpack::kReadOnly);
    again->deleter(again);
  }
  CHECK(theirs.returned == 2);
  auto* const writable = to_dlpack_versioned(copied);
  CHECK(writable->flags == 0);
  writable->deleter(writable);
  Versioned wanted(elements.data(), kF32, {2});
  CHECK(from_dlpack(&wanted.managed, DlpackCopy::always).data<float>().data() != elements.data());
  CHECK(wanted.returned == 1);
}

TEST_CASE("dlpack: what is handed out lives until it is given back", "[dlpack]") {
  auto array = std::make_unique<Array>(Array::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  float* const elements = array->data<float>().data();
  auto* const plain = to_dlpack(*array);
  auto* const versioned = to_dlpack_versioned(*array);
  array.reset();
  CHECK(plain->tensor.data == elements);
  CHECK(versioned->tensor.data == elements);
  CHECK(versioned->version.major == 1);
  CHECK(plain->tensor.ndim == 2);
  CHECK(plain->tensor.device.type == dlpack::kCpu);
  CHECK(plain->tensor.dtype.code == 2);
  CHECK(plain->tensor.dtype.bits == 32);
  CHECK(std::vector<int64_t>(plain->tensor.shape, plain->tensor.shape + 2) ==
        std::vector<int64_t>{2, 3});
  CHECK(std::vector<int64_t>(plain->tensor.strides, plain->tensor.strides + 2) ==
        std::vector<int64_t>{3, 1});
  plain->deleter(plain);
  CHECK(static_cast<float*>(versioned->tensor.data)[5] == 6);
  versioned->deleter(versioned);
}

TEST_CASE("dlpack: every element type goes out and comes back as the same bits", "[dlpack]") {
  // By the codes of DLPack's header.
  const std::vector<std::tuple<const char*, int, int>> codes = {
      {"pred", 6, 8},        {"s8", 0, 8},          {"s16", 0, 16},
      {"s32", 0, 32},        {"s64", 0, 64},        {"u8", 1, 8},
      {"u16", 1, 16},        {"u32", 1, 32},        {"u64", 1, 64},
      {"f16", 2, 16},        {"f32", 2, 32},        {"f64", 2, 64},
      {"bf16", 4, 16},       {"c64", 5, 64},        {"c128", 5, 128},
      {"f8e3m4", 7, 8},      {"f8e4m3", 8, 8},      {"f8e4m3b11fnuz", 9, 8},
      {"f8e4m3fn", 10, 8},   {"f8e4m3fnuz", 11, 8}, {"f8e5m2", 12, 8},
      {"f8e5m2fnuz", 13, 8}, {"f8e8m0fnu", 14, 8},  {"f4e2m1fn", 17, 4},
      {"f6e2m3fn", 15, 6},   {"f6e3m2fn", 16, 6},   {"s4", 0, 4},
      {"u4", 1, 4},          {"s2", 0, 2},          {"u2", 1, 2}};
  for (const auto& [name, code, bits] : codes) {
    INFO(name);
    const DType dtype = *dtype_from_name(name);
    Array array(Shape(dtype, {3}));
    for (size_t i = 0; i < array.bytes().size(); ++i) array.bytes()[i] = std::byte(i % 2);
    auto* const out = to_dlpack_versioned(array);
    CHECK(int{out->tensor.dtype.code} == code);
    CHECK(int{out->tensor.dtype.bits} == bits);
    CHECK(out->tensor.dtype.lanes == 1);
    CHECK((out->flags == dlpack::kSubbytePadded) == (bits < 8));
    const Array back = from_dlpack(out, DlpackCopy::never);
    CHECK(bitwise_equal(back, array));
    CHECK(back.bytes().data() == array.bytes().data());
    if (bits < 8) CHECK_THROWS_WITH(to_dlpack(array), Contains("have a byte each"));
  }
}

TEST_CASE("dlpack: what cannot be an array says why and stays the caller's", "[dlpack]") {
  std::vector<float> elements = {1, 2, 3, 4};
  Versioned theirs(elements.data(), kF32, {4});
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH(from_dlpack(&theirs.managed), Contains(message));
    CHECK(theirs.returned == 0);
    theirs.managed.version = {};
    theirs.managed.tensor.device = {};
    theirs.managed.tensor.dtype = kF32;
    theirs.managed.tensor.data = elements.data();
    theirs.shape = {4};
  };
  theirs.managed.version.major = 2;
  fails("the tensor is of DLPack 2.0; 1.x is understood");
  theirs.managed.tensor.device.type = 2;
  fails("on a device of type 2, not in host memory");
  theirs.managed.tensor.dtype = {2, 32, 4};
  fails("code 2 with 32 bits in 4 lanes");
  theirs.managed.tensor.dtype = {3, 64, 1};
  fails("code 3 with 64 bits in 1 lanes");
  theirs.managed.tensor.dtype = {0, 4, 1};
  fails("elements of s4 lie packed in bytes");
  theirs.shape[0] = -1;
  fails("dim 0 has -1 elements");
  theirs.shape[0] = int64_t{1} << 62;
  fails("more bytes than can be addressed");
  theirs.managed.tensor.data = nullptr;
  fails("f32[4] without elements");
  CHECK_THROWS_WITH(to_dlpack(Array()), Contains("an empty Array has no elements"));
}

TEST_CASE("dlpack: truth values other than 0 and 1 are made 1 in a copy", "[dlpack]") {
  std::vector<uint8_t> elements = {0, 1, 7};
  Plain theirs(elements.data(), {6, 8, 1}, {3});
  CHECK_THROWS_WITH(from_dlpack(&theirs.managed, DlpackCopy::never),
                    Contains("truth values other than 0 and 1"));
  CHECK(values(from_dlpack(&theirs.managed)) == std::vector<double>{0, 1, 1});
}

}  // namespace gspmd
