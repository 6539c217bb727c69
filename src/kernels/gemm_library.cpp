#include "gspmd/base/error.h"
#include "kernels/dnnl_call.h"
#include "kernels/gemm_product.h"

namespace gspmd {
namespace {

using dnnl_call::cpu, dnnl_call::OneThread, dnnl_call::stream_of_this_thread, dnnl_call::View;

class LibraryProduct final : public GemmProduct {
 public:
  explicit LibraryProduct(const GemmExtents& e) {
    using Tag = dnnl::memory::format_tag;
    constexpr auto kF32 = dnnl::memory::data_type::f32;
    const OneThread one;
    a_ = dnnl::memory::desc({e.rows, e.k}, kF32, Tag::ab);
    b_ = dnnl::memory::desc({e.k, e.n}, kF32, e.b_transposed ? Tag::ba : Tag::ab);
    c_ = dnnl::memory::desc({e.rows, e.n}, kF32, Tag::ab);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(
        dnnl::scratchpad_mode::user);  // the library's own is not reentrant
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a_, b_, c_), attributes, cpu());
    scratch_ = desc.scratchpad_desc();
    primitive_ = dnnl::matmul(desc);
  }

  int64_t scratch_bytes() const override { return static_cast<int64_t>(scratch_.get_size()); }

  void run(const std::byte* a, const std::byte* b, std::byte* c,
           std::byte* scratch) const override {
    const OneThread one;
    const View va(a_, a), vb(b_, b), vc(c_, c), vs(scratch_, scratch);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, va.get()},
                                    {DNNL_ARG_WEIGHTS, vb.get()},
                                    {DNNL_ARG_DST, vc.get()},
                                    {DNNL_ARG_SCRATCHPAD, vs.get()}};
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream_of_this_thread(), 4, args);
    if (status != dnnl_success)
      execution_error("dot: oneDNN returned status {}", static_cast<int>(status));
  }

 private:
  dnnl::memory::desc a_, b_, c_, scratch_;
  dnnl::matmul primitive_;
};

}  // namespace

std::unique_ptr<GemmProduct> library_product(const GemmExtents& extents) {
  try {
    return std::make_unique<LibraryProduct>(extents);
  } catch (const dnnl::error& error) {
    internal_error("dot: oneDNN cannot prepare a product of {}x{}x{}: {}", extents.rows, extents.n,
                   extents.k, error.what());
  }
}

}  // namespace gspmd
