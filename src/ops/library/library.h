#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// The row of a custom-call into a library of JAX or XLA that is understood: LAPACK and the
// factorizations of XLA, Fourier transforms of DUCC, Threefry, products of sparse matrices, empty
// buffers. nullptr: of any other target.
const OpInfo* library_call_info(const Node& custom_call);

namespace library {

const OpInfo* matrix_row(const Node& custom_call);   // factorizations.cpp
const OpInfo* fourier_row(const Node& custom_call);  // fourier.cpp
const OpInfo* random_row(const Node& custom_call);   // threefry.cpp
const OpInfo* sparse_row(const Node& custom_call);   // sparse.cpp
const OpInfo* buffer_row(const Node& custom_call);   // sparse.cpp

// The nest of a call whose first dims are batches: of the operands and result leaves that are
// marked, the first `batch` dims pass, all others are whole.
FactorRule batch_factors(const Node& node, int64_t batch, const std::vector<bool>& operands,
                         const std::vector<bool>& results);
// Batch dims tell each other their layout; dims that have to be whole say nothing.
extern const CompletionRules kBatchCompletion;
// The attributes with the operands' sizes on a device where layouts are stated.
Attributes constraints_on_part(const Node& node, const NodePart& part);

}  // namespace library
}  // namespace gspmd
