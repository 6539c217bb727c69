#include "gspmd/base/error.h"
#include "kernels/dnnl_call.h"
#include "kernels/gemm_product.h"

namespace gspmd {
namespace {

using dnnl_call::cpu, dnnl_call::OneThread, dnnl_call::stream_of_this_thread, dnnl_call::View;

dnnl::memory::data_type library_type(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// Of b: as it is stored, or in whatever layout the library reads fastest.
enum class Stored { plain, prepacked };

class LibraryProduct final : public GemmProduct {
 public:
  LibraryProduct(DType operand, DType result, const GemmExtents& e, Stored stored) {
    using Tag = dnnl::memory::format_tag;
    using Steps = dnnl::memory::dims;
    const OneThread one;
    const Steps plain = e.b_transposed ? Steps{1, e.b_step()} : Steps{e.b_step(), 1};
    a_ = dnnl::memory::desc({e.rows, e.k}, library_type(operand), Tag::ab);
    b_ = stored == Stored::plain ? dnnl::memory::desc({e.k, e.n}, library_type(operand), plain)
                                 : dnnl::memory::desc({e.k, e.n}, library_type(operand), Tag::any);
    c_ = dnnl::memory::desc({e.rows, e.n}, library_type(result), Steps{e.c_step(), 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(
        dnnl::scratchpad_mode::user);  // the library's own is not reentrant
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a_, b_, c_), attributes, cpu());
    b_ = desc.weights_desc();
    scratch_ = desc.scratchpad_desc();
    primitive_ = dnnl::matmul(desc);
  }

  // Whether b is read as `prepack` lays it out.
  bool reads_prepacked(const GemmExtents& e, StripKind kind) const {
    const bool halves = kind == StripKind::halves;
    const dnnl_memory_desc_t& b = b_.data;
    const dnnl_blocking_desc_t& blocks = b.format_desc.blocking;
    const int64_t strip = prepacked_bytes(1, e.k, kind) / (halves ? 2 : 4);
    const int inner = halves ? 3 : 2;
    if (b.format_kind != dnnl_blocked || b.extra.flags != 0 || blocks.inner_nblks != inner ||
        blocks.strides[1] != strip || blocks.strides[0] != 16 * kStripOfLibrary * (halves ? 2 : 1))
      return false;
    const bool lines = blocks.inner_blks[0] == 16 && blocks.inner_idxs[0] == 0 &&
                       blocks.inner_blks[1] == kStripOfLibrary && blocks.inner_idxs[1] == 1;
    return lines && (!halves || (blocks.inner_blks[2] == 2 && blocks.inner_idxs[2] == 0)) &&
           static_cast<int64_t>(b_.get_size()) == prepacked_bytes(e.n, e.k, kind);
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

bool has_instructions(unsigned needed) {
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & needed) == needed;
}

}  // namespace

bool multiplies_pairs() {
  // Intel's cores have one such instruction in four cycles, two of f32 in one.
  static const bool quick =
      has_instructions(dnnl_cpu_isa_avx512_core_bf16) && !__builtin_cpu_is("intel");
  return quick;
}

bool multiplies_bf16() {
  static const bool quick = multiplies_pairs() || has_instructions(dnnl_cpu_isa_avx512_core_amx);
  return quick;
}

std::unique_ptr<GemmProduct> library_product(DType operand, DType result,
                                             const GemmExtents& extents) {
  if (operand == DType::bf16 ? !multiplies_bf16() : operand != DType::f32) return nullptr;
  try {
    return std::make_unique<LibraryProduct>(operand, result, extents, Stored::plain);
  } catch (const dnnl::error& error) {
    if (operand == DType::bf16) return nullptr;
    internal_error("dot: oneDNN cannot prepare a product of {}x{}x{}: {}", extents.rows, extents.n,
                   extents.k, error.what());
  }
}

std::unique_ptr<GemmProduct> prepacked_product(DType operand, DType result,
                                               const GemmExtents& extents) {
  if (operand == DType::bf16 ? !multiplies_bf16() : operand != DType::f32) return nullptr;
  try {
    auto made = std::make_unique<LibraryProduct>(operand, result, extents, Stored::prepacked);
    if (made->reads_prepacked(extents,
                              operand == DType::bf16 ? StripKind::halves : StripKind::floats))
      return made;
  } catch (const dnnl::error&) {  // it has none: other ways are left
  }
  return nullptr;
}

}  // namespace gspmd
