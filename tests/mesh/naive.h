#pragma once

#include <map>
#include <string>
#include <vector>

#include "gspmd/mesh/sharding.h"

// Device arrays computed with plain coordinates, without digits: what the library is compared with.

namespace gspmd::naive {

// iota(n).reshape(reshape).transpose(transpose), row-major.
inline std::vector<int64_t> iota(const Dims& reshape, const std::vector<int64_t>& transpose) {
  Dims shape;
  for (const int64_t k : transpose) shape.push_back(reshape[size_t(k)]);
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  std::vector<int64_t> out;
  for (int64_t p = 0; p < n; ++p) {
    Dims coordinate(reshape.size());
    int64_t rest = p;
    for (size_t i = shape.size(); i-- > 0; rest /= shape[i])
      coordinate[size_t(transpose[i])] = rest % shape[i];
    int64_t value = 0;
    for (size_t i = 0; i < reshape.size(); ++i) value = value * reshape[i] + coordinate[i];
    out.push_back(value);
  }
  return out;
}

// Per device its tile in each of the first `rank` dims of a device array.
inline std::map<int64_t, Dims> tiles(const DeviceArray& array, int64_t rank) {
  std::map<int64_t, Dims> result;
  for (size_t p = 0; p < array.devices.size(); ++p) {
    Dims coordinate(array.dims.size());
    int64_t rest = int64_t(p);
    for (size_t i = array.dims.size(); i-- > 0; rest /= array.dims[i])
      coordinate[i] = rest % array.dims[i];
    coordinate.resize(size_t(rank));
    result[array.devices[p]] = coordinate;
  }
  return result;
}

}  // namespace gspmd::naive
