#pragma once

// Modules of HLO or StableHLO as files and as functions.
//
//   const auto layer = read_hlo("layer.hlo");
//   const auto run = compile(*layer, {.mesh = {{"data", 8}}});
//   const std::vector<Array> results = run({x, w});           // arrays in, arrays out
//   std::vector<Tensor> y = call_hlo(*layer, {h, w});         // inside a traced function

#include <memory>
#include <string>
#include <vector>

#include "gspmd/api/compile.h"
#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd {

// Reads a module from a file: HLO text or StableHLO's, found from the text. UserError names file,
// line and column. Of a text in memory: read_module (gspmd/stablehlo/text.h).
GSPMD_API std::shared_ptr<const Module> read_hlo(const std::string& path);
// The module's canonical text in either language. UserError when the file cannot be written.
GSPMD_API void write_hlo(const Module& module, const std::string& path,
                         Language form = Language::hlo);

// The module's computation applied to tensors of the running trace: one argument per leaf of its
// parameters, one result per leaf of its result, in order. Its shardings, those of its parameters
// and results among them, become annotations. UserError: other shapes or dtypes, another number of
// devices than the trace's other annotations have. Shardings in Shardy's dialect are completed by
// Shardy's rules first, so that they can be.
GSPMD_API std::vector<Tensor> call_hlo(const Module& module, const std::vector<Tensor>& arguments,
                                       Site site = Site::here());

// A module ready to run on host arrays, leaf by leaf as call_hlo. Without a mesh in `options` it
// runs on the devices that the module names: its num_partitions, or its largest mesh of Shardy's.
// Parameters and results without a sharding get the one that completion finds, by the rules that
// options.strategy names.
using HloExecutable = Executable<std::vector<Array>, std::vector<Array>>;
// UserError as compile() of a function, and where the module names another number of devices than
// the mesh.
GSPMD_API HloExecutable compile(const Module& module, CompileOptions options = {});

}  // namespace gspmd
