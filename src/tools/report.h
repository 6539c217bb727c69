#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "gspmd/base/array.h"
#include "gspmd/ir/module.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "gspmd/passes/partition/partition.h"
#include "gspmd/passes/pipeline.h"
#include "gspmd/runtime/evaluated_step.h"
#include "tools/elements.h"

namespace gspmd::tools {

using Json = nlohmann::ordered_json;

// One object and a newline on standard output; bytes that are not UTF-8 become U+FFFD.
void print_json(const Json& value);

Json to_json(const std::vector<CollectiveStats>& collectives);
Json to_json(const std::vector<FullRematerialization>& all);
Json to_json(const std::vector<EvaluatedStep>& steps);
// {"dtype","shape","data"}; no data above 65,536 elements.
Json to_json(const Array& array);
Json number(double value);                         // NaN and infinities are strings
Json element_json(const Element& element);         // complex numbers are [re, im]
std::string element_text(const Element& element);  // (re, im)

// Tables for people.
std::string to_table(const std::vector<CollectiveStats>& collectives);
std::string to_table(const std::vector<FullRematerialization>& all);
std::string to_table(const std::vector<EvaluatedStep>& steps);
std::string to_line(const Array& array);  // "f32[2] 1, 2", the first elements of large ones

// The mesh whose axes name the module's shardings (the first one found); nullptr when none does.
std::shared_ptr<const Mesh> mesh_of(const Module& module);

double total_seconds(const std::vector<PassTime>& passes);
int64_t instruction_count(const Module& module);

}  // namespace gspmd::tools
