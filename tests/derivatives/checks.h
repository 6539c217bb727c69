#pragma once

// What has to hold of the derivatives of a differentiable builder, alone and in what it may be
// put into.

#include <functional>
#include <string>
#include <vector>

#include "gspmd/gspmd.h"

namespace gspmd::test {

using TensorFunction = std::function<Tensor(Tensor)>;

// A builder, at a point around which it is smooth.
struct Case {
  std::string name;   // of the builder: "conv", or with what is special, "conv: depthwise"
  TensorFunction fn;  // of one f64 tensor of any dims, to real f64 of any dims
  Array at;           // the point
  // For functions that are made for a mesh, as by shard_map: the only one that they run on.
  Mesh mesh = {};
};

// --- The tables, a family each
std::vector<Case> elementwise_cases();
std::vector<Case> reduction_cases();
std::vector<Case> indexing_cases();
std::vector<Case> arranging_cases();
std::vector<Case> linalg_cases();
std::vector<Case> fourier_cases();
std::vector<Case> window_cases();
std::vector<Case> network_cases();
std::vector<Case> layer_cases();
std::vector<Case> control_cases();
std::vector<Case> mesh_cases();

// --- Each gives what is wrong; the empty string: nothing

// Gradients against central differences, forward against reverse mode, second derivatives by
// forward over reverse, reverse over reverse and reverse over forward mode against central
// differences of the gradient.
std::string wrong_alone(const Case& c);
// The same of the function in a body of scan, on the carry and on slices, against the steps written
// out: values, gradients, forward mode and second derivatives.
std::string wrong_in_scan(const Case& c);
std::string wrong_in_cond(const Case& c);        // in branches taken and not taken
std::string wrong_in_checkpoint(const Case& c);  // against the function alone
std::string wrong_in_vmap(const Case& c);        // against a loop of it over the batch
// Values, gradients and second derivatives on meshes that cut dims unevenly.
std::string wrong_on_meshes(const Case& c);

// --- What takes longer: surveys
std::string wrong_composed_on_meshes(const Case& c);  // scan, cond, checkpoint, vmap on a mesh
std::string wrong_composed_twice(const Case& c);      // scan, checkpoint, vmap in each of those

}  // namespace gspmd::test
