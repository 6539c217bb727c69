#pragma once

// Trees saved by all processes of a job.

#include <functional>
#include <map>
#include <string>

#include "gspmd/api/checkpoint.h"
#include "runtime/transport.h"

namespace gspmd::detail {

// Every process writes the shards that it is to write, each shard by one of those that have it, and
// the first what lies on the host; then the first writes the index, or the one file that there is
// where it writes all. All fail where one does.
void save_by_all(const std::string& path, const Leaves& leaves,
                 const std::map<std::string, std::string>& metadata, Transport& transport);

// f() in every process; a UserError of one is one of all: that of the first that has one, named.
void together(Transport& transport, std::string_view what, const std::function<void()>& f);

// The transport of a job of several processes; nullptr where the program runs by itself.
Transport* job_transport();

// An array's elements on the host; of one on devices, without the copy that reading it would keep.
Array host_copy(const Array& array);

}  // namespace gspmd::detail
