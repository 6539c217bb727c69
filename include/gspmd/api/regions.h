#pragma once

// What annotations can say beyond one layout for one value; manual regions.

#include <string>
#include <utility>
#include <vector>

#include "gspmd/api/annotate.h"
#include "gspmd/base/export.h"

namespace gspmd {

// When completion hears an annotation.
struct AnnotateOptions {
  // Heard after annotations of smaller numbers have been carried as far as they reach.
  int64_t priority = 0;
};
// --- As the functions of the same names in api/annotate.h
GSPMD_API Tensor annotate(Operand x, const Sharding& sharding, const AnnotateOptions& options);
GSPMD_API Tensor mesh_split(Operand x, const Mesh& mesh, const SplitDims& dims,
                            const AnnotateOptions& options);

// The same values, which completion lays out equally (shard_as), or which tell each other their
// layouts but may end apart (shard_like). Any shapes of one rank. Only values that are used count:
// both results have to be, sharding_lint tells where they are not.
GSPMD_API std::pair<Tensor, Tensor> shard_as(Operand a, Operand b);
// They tell each other their layouts, but may end apart.
GSPMD_API std::pair<Tensor, Tensor> shard_like(Operand a, Operand b);

// The same value; layouts do not pass forward (barrier_from), or backward (barrier_to).
GSPMD_API Tensor shard_barrier_from(Operand x);
GSPMD_API Tensor shard_barrier_to(Operand x);  // Layouts do not pass backward.

// Manual code on some mesh axes, or on all: between the two calls every device sees its own part
// along `axes`, and the code does its own collectives over them; the other axes stay automatic.
// `dims` is the layout outside. Sizes must be multiples of the manual axes that split them.
GSPMD_API Tensor auto_to_manual(Operand x, const Mesh& mesh, const SplitDims& dims,
                                const std::vector<std::string>& axes);
// The way back, to the layout `dims`.
GSPMD_API Tensor manual_to_auto(Operand x, const Mesh& mesh, const SplitDims& dims,
                                const std::vector<std::string>& axes);

}  // namespace gspmd
