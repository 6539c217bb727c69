#pragma once

// Logical arrays of devices with named axes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/base/rare.h"
#include "gspmd/base/site.h"
#include "gspmd/mesh/digits.h"

namespace gspmd {

// One axis of a mesh.
struct MeshAxis {
  std::string name;  // unique in the mesh
  int64_t size = 1;  // number of devices along it
  bool operator==(const MeshAxis&) const = default;
};

// A logical n-dimensional array of devices with named axes, row-major; device ids in any order.
// arXiv:2105.04663, 2.2.
class GSPMD_API Mesh {
 public:
  Mesh();  // no axes: one device
  // UserError: empty, quoted or repeated names, sizes below 1, more than 256 axes or 2^31 devices,
  // `devices` that is not a list of prod(sizes) distinct ids (empty = 0, 1, 2, ...).
  Mesh(std::vector<MeshAxis> axes, std::vector<int64_t> devices = {}, Site site = Site::here());
  Mesh(std::initializer_list<MeshAxis> axes, Site site = Site::here());
  // --- Copies share the axes
  Mesh(const Mesh& other) noexcept;
  Mesh(Mesh&& other) noexcept;
  Mesh& operator=(const Mesh& other) noexcept;
  Mesh& operator=(Mesh&& other) noexcept;
  ~Mesh();

  int64_t num_devices() const;                                 // product of the axes' sizes
  const std::vector<MeshAxis>& axes() const;                   // major first
  int64_t rank() const;                                        // number of axes
  bool has(std::string_view axis) const;                       // whether an axis has this name
  int64_t index(std::string_view axis, Site site = {}) const;  // UserError lists the axes there are
  int64_t size(std::string_view axis, Site site = {}) const;   // as index()
  // The digit of an axis over positions in the mesh (not device ids): position p is at coordinate
  // (p / stride) % size along the axis.
  Digit digit(int64_t axis) const;
  DeviceOrder order() const { return order_; }  // position -> device id
  bool operator==(const Mesh& other) const;     // axes and order

 private:
  Rare<std::vector<MeshAxis>> axes_;
  DeviceOrder order_ = iota_order(1);
};

// mesh['x'=2,'y'=4], with device_ids=[...] only when they are not 0,1,2,...
GSPMD_API std::string to_string(const Mesh& mesh);

}  // namespace gspmd
