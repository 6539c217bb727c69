#include "kernels/convolution_library.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "kernels/dnnl_call.h"
#include "kernels/lines.h"

namespace gspmd {
namespace {

using dnnl_call::cpu, dnnl_call::OneThread, dnnl_call::stream_of_this_thread, dnnl_call::View;
using Desc = dnnl::memory::desc;

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

Desc as_given(const ConvolutionTensor& tensor, DType dtype) {
  return {tensor.dims, type_of(dtype), tensor.steps};
}
Desc any_layout(const ConvolutionTensor& tensor, DType dtype) {
  return {tensor.dims, type_of(dtype), dnnl::memory::format_tag::any};
}

// Input and output in one layout, tried in this order: where they differ the library has nothing
// fast.
enum class Layout : uint8_t { features_last, any, features_first };

Desc in_layout(const ConvolutionTensor& tensor, DType dtype, Layout layout) {
  if (layout == Layout::any) return any_layout(tensor, dtype);
  const size_t rank = tensor.dims.size();
  std::vector<int64_t> steps(rank, 1);
  int64_t step = 1;
  for (size_t i = 0; i < rank; ++i) {
    // Innermost first: feature, last spatial, ..., batch; or last spatial, ..., feature, batch.
    const size_t last = i == 0 ? 1 : i == rank - 1 ? 0 : rank - i;
    const size_t d = layout == Layout::features_last ? last : rank - 1 - i;
    steps[d] = step;
    step *= tensor.dims[d];
  }
  return {tensor.dims, type_of(dtype), steps};
}

dnnl::primitive_attr user_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(
      dnnl::scratchpad_mode::user);  // the library's own is not reentrant
  return attributes;
}

void run_primitive(const dnnl::primitive& primitive, const dnnl_exec_arg_t* args, int count) {
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive.get(), stream_of_this_thread(), count, args);
  if (status != dnnl_success)
    execution_error("convolution: oneDNN returned status {}", static_cast<int>(status));
}

// A tensor as the caller has it and as the primitive wants it, with the copy between them.
struct Side {
  Desc given, wanted;
  std::optional<dnnl::reorder> copy;
  Desc copy_scratch;
  int64_t offset = 0;  // of the wanted form in the scratch

  void prepare(const Desc& from, const Desc& to) {
    const dnnl::reorder::primitive_desc desc(cpu(), from, cpu(), to, user_scratch());
    copy_scratch = desc.scratchpad_desc();
    copy = dnnl::reorder(desc);
  }
  void run(const Desc& from_desc, const std::byte* from, const Desc& to_desc, std::byte* to,
           std::byte* scratch) const {
    const View source(from_desc, from), target(to_desc, to), work(copy_scratch, scratch);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source.get()},
                                    {DNNL_ARG_TO, target.get()},
                                    {DNNL_ARG_SCRATCHPAD, work.get()}};
    run_primitive(*copy, args, 3);
  }
};

class Primitive final : public ConvolutionPrimitive {
 public:
  Primitive(const LibraryConvolution& c, Layout layout) : form_(c.form) {
    const OneThread one;
    const auto forward = forward_desc(c, layout);
    if (form_ == ConvolutionForm::forward) {
      take(forward, c);
    } else if (form_ == ConvolutionForm::input_gradient) {
      const dnnl::convolution_backward_data::desc desc(
          dnnl::algorithm::convolution_direct, in_layout(c.src, c.result, layout),
          any_layout(c.weights, c.operand), in_layout(c.dst, c.operand, layout), c.strides,
          c.dilations, c.pad_low, c.pad_high);
      take_gradient<dnnl::convolution_backward_data>(desc, forward, c);
    } else {
      const dnnl::convolution_backward_weights::desc desc(
          dnnl::algorithm::convolution_direct, in_layout(c.src, c.operand, layout),
          any_layout(c.weights, c.result), in_layout(c.dst, c.operand, layout), c.strides,
          c.dilations, c.pad_low, c.pad_high);
      take_gradient<dnnl::convolution_backward_weights>(desc, forward, c);
    }
    place_buffers();
  }

  // Whether it is more than the library's plain loops.
  bool is_fast() const { return is_fast_; }
  int64_t scratch_bytes() const override { return bytes_; }

  int64_t laid_out_bytes() const override {
    const Side& weights = sides_[kWeights];
    return result() != kWeights && weights.copy
               ? in_lines(static_cast<int64_t>(weights.wanted.get_size()))
               : 0;
  }
  void lay_out_weights(std::byte* weights, std::byte* to, std::byte* scratch) const override {
    const OneThread one;
    const Side& side = sides_[kWeights];
    side.run(side.given, weights, side.wanted, to, scratch + library_offset_);
  }
  bool reads_as(const ConvolutionPrimitive& other) const override {
    return sides_[kWeights].wanted == static_cast<const Primitive&>(other).sides_[kWeights].wanted;
  }

  void run(std::byte* src, std::byte* weights, std::byte* dst, std::byte* scratch,
           const std::byte* laid_out) const override {
    const OneThread one;
    std::byte* const given[] = {src, weights, dst};
    std::byte* used[3];
    std::byte* const library = scratch + library_offset_;
    for (size_t i = 0; i < 3; ++i) {
      const Side& side = sides_[i];
      if (i == kWeights && laid_out != nullptr) {
        used[i] = const_cast<std::byte*>(laid_out);
        continue;
      }
      used[i] = side.copy ? scratch + side.offset : given[i];
      if (side.copy && i != result()) side.run(side.given, given[i], side.wanted, used[i], library);
    }
    const View vs(sides_[0].wanted, used[0]), vw(sides_[1].wanted, used[1]),
        vd(sides_[2].wanted, used[2]), work(scratch_, library);
    const bool src_out = form_ == ConvolutionForm::input_gradient;
    const bool weights_out = form_ == ConvolutionForm::kernel_gradient;
    const dnnl_exec_arg_t args[] = {
        {src_out ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, vs.get()},
        {weights_out ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, vw.get()},
        {src_out || weights_out ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST, vd.get()},
        {DNNL_ARG_SCRATCHPAD, work.get()}};
    run_primitive(primitive_, args, 4);
    const Side& out = sides_[result()];
    if (out.copy) out.run(out.wanted, used[result()], out.given, given[result()], library);
  }

 private:
  using Forward = dnnl::convolution_forward::primitive_desc;
  static constexpr size_t kWeights = 1;  // of sides_

  size_t result() const {
    return form_ == ConvolutionForm::input_gradient    ? 0
           : form_ == ConvolutionForm::kernel_gradient ? 1
                                                       : 2;
  }

  template <class PrimitiveDesc>
  static bool is_fast(const PrimitiveDesc& desc) {
    return std::string_view(desc.impl_info_str()).substr(0, 3) != "ref";
  }

  // Gradients are made with the forward convolution as a hint.
  static Forward forward_desc(const LibraryConvolution& c, Layout layout) {
    const bool forward = c.form == ConvolutionForm::forward;
    const DType dst = forward ? c.result : c.operand;
    const dnnl::convolution_forward::desc desc(
        forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training,
        dnnl::algorithm::convolution_direct, in_layout(c.src, c.operand, layout),
        any_layout(c.weights, c.operand), in_layout(c.dst, dst, layout), c.strides, c.dilations,
        c.pad_low, c.pad_high);
    return {desc, user_scratch(), cpu()};
  }

  void take(const Forward& desc, const LibraryConvolution& c) {
    is_fast_ = is_fast(desc);
    primitive_ = dnnl::convolution_forward(desc);
    scratch_ = desc.scratchpad_desc();
    set_side(0, c.src, c.operand, desc.src_desc());
    set_side(1, c.weights, c.operand, desc.weights_desc());
    set_side(2, c.dst, c.result, desc.dst_desc());
  }

  template <class Gradient, class GradientDesc>
  void take_gradient(const GradientDesc& wanted, const Forward& forward,
                     const LibraryConvolution& c) {
    const typename Gradient::primitive_desc desc(wanted, user_scratch(), cpu(), forward);
    is_fast_ = is_fast(desc);
    primitive_ = Gradient(desc);
    scratch_ = desc.scratchpad_desc();
    if constexpr (std::is_same_v<Gradient, dnnl::convolution_backward_data>) {
      set_side(0, c.src, c.result, desc.diff_src_desc());
      set_side(1, c.weights, c.operand, desc.weights_desc());
    } else {
      set_side(0, c.src, c.operand, desc.src_desc());
      set_side(1, c.weights, c.result, desc.diff_weights_desc());
    }
    set_side(2, c.dst, c.operand, desc.diff_dst_desc());
  }

  void set_side(size_t i, const ConvolutionTensor& tensor, DType dtype, const Desc& wanted) {
    Side& side = sides_[i];
    side.given = as_given(tensor, dtype);
    side.wanted = wanted;
    if (side.given == wanted) return;
    if (i == result())
      side.prepare(wanted, side.given);
    else
      side.prepare(side.given, wanted);
  }

  void place_buffers() {
    size_t work = scratch_.get_size();
    for (Side& side : sides_) {
      if (!side.copy) continue;
      side.offset = bytes_;
      bytes_ += in_lines(static_cast<int64_t>(side.wanted.get_size()));
      work = std::max(work, side.copy_scratch.get_size());
    }
    library_offset_ = bytes_;
    bytes_ += in_lines(static_cast<int64_t>(work));
  }

  ConvolutionForm form_;
  bool is_fast_ = false;
  dnnl::primitive primitive_;
  Desc scratch_;
  Side sides_[3];  // src, weights, dst
  int64_t library_offset_ = 0, bytes_ = 0;
};

}  // namespace

std::unique_ptr<ConvolutionPrimitive> library_convolution(const LibraryConvolution& convolution) {
  for (const Layout layout : {Layout::features_last, Layout::any, Layout::features_first}) {
    try {
      auto primitive = std::make_unique<Primitive>(convolution, layout);
      if (primitive->is_fast()) return primitive;
    } catch (const dnnl::error&) {
      // Not implemented, or beyond the limits of the library's arguments.
    }
  }
  return nullptr;
}

}  // namespace gspmd
