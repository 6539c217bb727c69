#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/ir/op.h"
#include "tools/command.h"

namespace gspmd::tools {

// Entry parameter leaves in order: from the npz file that the command names, or else random by
// (seed, leaf, element) alone: the same for any number of devices. Small integers, or uniform
// floats (docs/spec/command.md 2.4). UserError for what is missing in the file or does not fit.
std::vector<Array> make_inputs(const Module& module, const Command& command);
// The same for each device of a program that runs as copies: an array with a leading dim of
// `devices` holds one value for each of them, others are every device's. Random values are all
// devices' too.
std::vector<std::vector<Array>> make_device_inputs(const Module& module, const Command& command,
                                                   int64_t devices);
// As HLO values, one per entry parameter.
std::vector<Value> pack_arguments(const Module& module, std::span<const Array> leaves);

// "0", "1.0", "1.1.2": parameter number, then positions in tuples.
std::vector<std::string> input_names(const Module& module);

// The file --expected: an array per leaf of the result. UserError for what is missing or does not
// fit.
std::vector<Array> read_expected(const Module& module, const std::string& path);
// Result leaves as arrays "0", "1", ...
void write_outputs(const std::string& path, std::span<const Array> outputs);
// UserError when the file could not be written: asked before the work is done.
void check_outputs_path(const std::string& path);

}  // namespace gspmd::tools
