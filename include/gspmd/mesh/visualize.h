#pragma once

// Pictures of who holds what, as pages for a browser.

#include <span>
#include <string>

#include "gspmd/base/export.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// A tensor on a page, or a tuple, whose leaves are shown one by one.
struct ShardedTensor {
  std::string name = {};   // its heading
  Shape shape = {};        // global
  Sharding sharding = {};  // of that shape; a tuple's for a tuple, or one for all its leaves
};

// An HTML page that needs nothing else: a drawing (SVG) of each tensor's boxes, coloured and
// numbered by the devices that hold them; how often each box is held, unreduced and manual devices,
// uneven dims. Dims beyond two that are split give a drawing per tile; more than 12 tiles along a
// dim, 8 drawings or 400 tensors are left out and counted, so that pages for large meshes stay
// small. InternalError where a sharding does not fit its shape.
GSPMD_API std::string visualize_html(const std::string& title,
                                     std::span<const ShardedTensor> tensors);
// The page of one tensor.
GSPMD_API std::string visualize_html(const Shape& global, const Sharding& sharding);

}  // namespace gspmd
