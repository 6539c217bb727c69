#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gspmd/base/dtype.h"

namespace gspmd {

// What the library computes: the result, or the gradient of the input or of the kernel of a plain
// convolution.
enum class ConvolutionForm : uint8_t { forward, input_gradient, kernel_gradient };

// Sizes and steps in elements, in the library's order: batch and feature (groups, output and input
// feature for the kernel), then the spatial dims.
struct ConvolutionTensor {
  std::vector<int64_t> dims, steps;
};

// A plain convolution in the library's terms. Forward: src and weights give dst; the gradients give
// src (of dst and weights) or weights (of src and dst).
struct LibraryConvolution {
  ConvolutionForm form = ConvolutionForm::forward;
  DType operand = DType::f32, result = DType::f32;
  ConvolutionTensor src, weights, dst;
  std::vector<int64_t> strides, dilations, pad_low, pad_high;  // a dilation of 0 is none
};

// One convolution, prepared. Reentrant.
class ConvolutionPrimitive {
 public:
  virtual ~ConvolutionPrimitive() = default;
  virtual int64_t scratch_bytes() const = 0;
  // Pointers to the first elements of the tensors: the form's result is written. `laid_out`:
  // nullptr, or what lay_out_weights() has written of the weights, which are not read then.
  virtual void run(std::byte* src, std::byte* weights, std::byte* dst, std::byte* scratch,
                   const std::byte* laid_out) const = 0;
  // Of operands: bytes of the weights as they are read; 0: they are read as they are given.
  virtual int64_t laid_out_bytes() const = 0;
  virtual void lay_out_weights(std::byte* weights, std::byte* to, std::byte* scratch) const = 0;
  // Whether what the other one lays out is what this one reads.
  virtual bool reads_as(const ConvolutionPrimitive& other) const = 0;
};

// nullptr where the library has no such primitive.
std::unique_ptr<ConvolutionPrimitive> library_convolution(const LibraryConvolution& convolution);

}  // namespace gspmd
