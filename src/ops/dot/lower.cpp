#include "gspmd/kernels/gemm.h"
#include "ops/dot/dot.h"

namespace gspmd {
namespace {

ViewDims dense(const Node& node) { return {node.dims(), row_major_strides(node.dims())}; }

PreparedKernel prepare(const Node& dot, const ViewDims& lhs, const ViewDims& rhs,
                       const ViewDims& result) {
  const DType dtype = dot.operand(0)->shape.dtype;
  if (dot.operand(1)->shape.dtype != dtype) return {};
  GemmSpec spec;
  spec.dtype = dtype;
  spec.result = dot.shape.dtype;
  const auto stride = [](const ViewDims& view, int64_t d) {
    return d < 0 ? 0 : view.strides.at(static_cast<size_t>(d));
  };
  for (const DotLoop& loop : dot_loops(dot))
    (loop.out < 0   ? spec.k
     : loop.rhs < 0 ? spec.m
     : loop.lhs < 0 ? spec.n
                    : spec.batch)
        .push_back({size_of(dot, loop), stride(lhs, loop.lhs), stride(rhs, loop.rhs),
                    stride(result, loop.out)});
  return prepare_gemm(spec);
}

// The same elements under other dims; nullopt where no strides can say it (a copy is needed).
std::optional<ViewDims> reshape_view(const ViewDims& view, const Dims& dims) {
  ViewDims out{dims, Dims(dims.size(), 0)};
  size_t i = 0, j = 0;
  while (i < view.dims.size() || j < dims.size()) {
    // The shortest runs of old and new dims with equal products.
    size_t i_end = i, j_end = j;
    int64_t old_product = 1, new_product = 1;
    do {
      if (i_end < view.dims.size() && (old_product <= new_product || j_end == dims.size())) {
        old_product *= view.dims[i_end++];
      } else if (j_end < dims.size()) {
        new_product *= dims[j_end++];
      } else {
        return std::nullopt;
      }
      if (old_product == 0 || new_product == 0) return std::nullopt;
    } while (old_product != new_product);
    int64_t stride = 0, expected = -1;  // of the run's last dim; of the next one to the left
    for (size_t k = i_end; k-- > i;) {
      if (view.dims[k] == 1) continue;
      if (expected >= 0 && view.strides[k] != expected) return std::nullopt;
      if (expected < 0) stride = view.strides[k];
      expected = view.strides[k] * view.dims[k];
    }
    for (size_t k = j_end; k-- > j;) {
      out.strides[k] = stride;
      stride *= dims[k];
    }
    i = i_end;
    j = j_end;
  }
  return out;
}

}  // namespace

bool is_view_op(const Node& node) { return node.is(Opcode::transpose) || node.is(Opcode::reshape); }

std::optional<ViewDims> view_from(const Node& node, const Node& source) {
  if (&node == &source) return dense(node);
  if (!is_view_op(node)) return std::nullopt;
  const std::optional<ViewDims> inner = view_from(*node.operand(0), source);
  if (!inner) return std::nullopt;
  if (node.is(Opcode::reshape)) return reshape_view(*inner, node.dims());
  ViewDims view;
  for (const int64_t d : node.attrs.dimensions) {
    view.dims.push_back(inner->dims.at(static_cast<size_t>(d)));
    view.strides.push_back(inner->strides.at(static_cast<size_t>(d)));
  }
  return view;
}

std::optional<ViewDims> view_into(const Node& source, const Node& node) {
  ViewDims view = dense(node);
  for (const Node* at = &node; at != &source; at = at->operand(0)) {
    if (at->is(Opcode::reshape)) {
      const std::optional<ViewDims> reshaped = reshape_view(view, at->operand(0)->dims());
      if (!reshaped) return std::nullopt;
      view = *reshaped;
    } else if (at->is(Opcode::transpose)) {
      ViewDims inner = view;
      for (size_t d = 0; d < view.dims.size(); ++d) {
        const auto from = static_cast<size_t>(at->attrs.dimensions.at(d));
        inner.dims[from] = view.dims[d];
        inner.strides[from] = view.strides[d];
      }
      view = inner;
    } else {
      return std::nullopt;
    }
  }
  return view;
}

namespace {

// The dot reads `lhs` and `rhs` of the parameters, and is written into the root.
struct DotFusion {
  const Node* dot = nullptr;
  const Node* sources[2] = {nullptr, nullptr};  // parameters of the fused computation
  ViewDims lhs, rhs, result;
};

std::optional<DotFusion> dot_fusion(const Computation& fused) {
  DotFusion out;
  const Node* root = fused.root();
  const Node* at = root;
  while (is_view_op(*at)) at = at->operand(0);
  if (!at->is(Opcode::dot)) return std::nullopt;
  out.dot = at;
  for (int i = 0; i < 2; ++i) {
    const Node* source = at->operand(i);
    while (is_view_op(*source)) source = source->operand(0);
    if (!source->is(Opcode::parameter)) return std::nullopt;
    out.sources[i] = source;
  }
  const std::optional<ViewDims> lhs = view_from(*at->operand(0), *out.sources[0]);
  const std::optional<ViewDims> rhs = view_from(*at->operand(1), *out.sources[1]);
  const std::optional<ViewDims> result = view_into(*at, *root);
  if (!lhs || !rhs || !result) return std::nullopt;
  out.lhs = *lhs;
  out.rhs = *rhs;
  out.result = *result;
  return out;
}

}  // namespace

PreparedKernel lower_dot(const Node& node) {
  return prepare(node, dense(*node.operand(0)), dense(*node.operand(1)), dense(node));
}

PreparedKernel lower_dot_fusion(const Node& node) {
  const std::optional<DotFusion> found = dot_fusion(*node.called.at(0));
  if (!found) return {};
  PreparedKernel kernel = prepare(*found->dot, found->lhs, found->rhs, found->result);
  const int64_t lhs = found->sources[0]->attrs.index, rhs = found->sources[1]->attrs.index;
  if (!kernel.run || (lhs == 0 && rhs == 1)) return kernel;
  kernel.run = [run = std::move(kernel.run), lhs, rhs](const KernelArgs& args) {
    const std::byte* const operands[] = {args.operands[lhs], args.operands[rhs]};
    KernelArgs ordered = args;
    ordered.operands = operands;
    run(ordered);
  };
  return kernel;
}

}  // namespace gspmd
