#pragma once

// Arrays of which each process of a job has a part only.

#include <cstdint>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/base/error.h"
#include "gspmd/base/export.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// An array on the devices of a mesh, made of the shards that this process hosts: shards[i] is that
// of device local_devices(num_devices).first + i, no process has the whole. A shard's shape is
// local_shape(shape, sharding), or, in the tails of uneven dims, the size of the device's
// shard_box(shape, sharding, device); a device outside the sharding has any, which is not looked
// at. Shards of devices that hold the same part are equal; only this process's are compared. Every
// process calls it, nothing is sent. With the sharding of a compiled function's argument
// (Executable::parameter_sharding) it goes in as it lies:
//   const Sharding rows = step.parameter_sharding("batch");
//   step(params, array_from_local_shards(shape, rows, mesh.num_devices(), shards));
// UserError: another number of shards than devices here, a shard of another shape or dtype, a
// sharding that is not of this shape or names more devices, equal parts that differ.
GSPMD_API Array array_from_local_shards(const Shape& shape, const Sharding& sharding,
                                        int64_t num_devices, const std::vector<Array>& shards,
                                        Site site = Site::here());

// The shards of an array that this process hosts, by device, on the host: shapes are those of the
// devices' boxes, without the padding of uneven tails. Nothing is gathered, so one process may call
// it alone. Of an array on the host, or on one device: itself. UserError: it was donated; it lies
// flat (WeightUpdate), where shards are not boxes of it.
GSPMD_API std::vector<Array> local_shards(const Array& array, Site site = Site::here());

}  // namespace gspmd
