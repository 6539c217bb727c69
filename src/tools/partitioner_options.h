#pragma once

#include <string>

#include "gspmd/passes/pipeline.h"

namespace gspmd::tools {

// One `--option name=value` of the partitioner, by the names of docs/spec/partitioning.md 10. Those
// that choose between ways which this partitioner weighs by bytes are accepted and change nothing:
// false. UserError for another name or value.
bool set_partitioner_option(const std::string& text, PipelineOptions& options);

// One `--option sdy_...=value` of Shardy's rules. UserError for another name or value.
void set_shardy_option(const std::string& text, ShardyOptions& options);

}  // namespace gspmd::tools
