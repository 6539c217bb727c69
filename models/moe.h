#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/gating.h"
#include "models/layout.h"

namespace gspmd::models {

// Who chooses.
enum class Routing : uint8_t {
  top2,           // tokens choose two experts, which have room for so many
  dropless,       // tokens choose two experts, which take them all
  expert_choice,  // experts choose tokens
};
// How tokens get into the experts' tables and back; same values.
enum class Dispatch : uint8_t {
  einsum,  // products with the weights g,s,e,c
  gather,  // each place reads its token: on a mesh a manual region over the groups' axes
};

// By their names: top2, dropless, expert-choice; einsum, gather; published, released; random,
// sampling, all. UserError lists the names.
Routing routing_of_name(std::string_view name);
Dispatch dispatch_of_name(std::string_view name);
GatingForm gating_form_of_name(std::string_view name);
SecondExpert second_expert_of_name(std::string_view name);

enum class Activation : uint8_t { relu, gelu };

// A layer of experts, each activation(x w_in) w_out, in the place of a feed-forward layer.
struct MoeConfig {
  int64_t model = 256;   // m
  int64_t hidden = 512;  // h, of one expert
  int64_t group = 128;   // s: tokens that compete for places; divides the tokens of a batch
  Routing routing = Routing::top2;
  Dispatch dispatch = Dispatch::einsum;
  GatingOptions gating;  // the number of experts e is here
  Activation activation = Activation::relu;
  DType dtype = DType::f32;
};

// UserError: a size below 1, as check(GatingOptions).
void check(const MoeConfig& config);

template <class T>  // Shape, Array or Tensor
struct MoeParams {
  T router;  // m,e
  T w_in;    // e,m,h
  T w_out;   // e,h,m
  GSPMD_FIELDS(router, w_in, w_out)
};

MoeParams<Shape> parameter_shapes(const MoeConfig& config);
// Floating point operations of the products of one token, forward: the router's, and those of the
// two experts (expert choice: capacity_factor of them).
double forward_flops(const MoeConfig& config);

// How a layer of experts is split; lists as a Layout's.
struct MoeLayout {
  AxisList groups;         // g of the tokens, while they are where they come from
  AxisList experts;        // e of weights and of tables
  AxisList expert_hidden;  // h of each expert
};

// What a layer says of its routes.
template <class T>
struct MoeReport {
  T aux_loss, z_loss;  // scalars
  T assigned, kept;    // e, f32: as Routes'
  T unserved;          // scalar, f32: as Routes'
  GSPMD_FIELDS(aux_loss, z_loss, assigned, kept, unserved)
};

// A layer of experts as code for one device. Annotated are the tokens, the two tables on both of
// their sides, and the weights: what moves between the sides is an all-to-all.
class MoeLayer {
 public:
  // UserError as check(); an axis that the mesh lacks.
  MoeLayer(const MoeConfig& config, const Mesh& mesh, const MoeLayout& layout);

  const MoeConfig& config() const { return config_; }
  const MoeLayout& layout() const { return layout_; }
  // Whether it reads a seed.
  bool draws() const;

  struct Result {
    Tensor y;  // b,t,m; rows of zeros of tokens that no expert took
    MoeReport<Tensor> report;
  };
  // Tokens b,t,m. `seed`, an integer scalar, is for gating_noise(); `present` b,t as in
  // top2_gating(). UserError: dims that do not fit, tokens that are no whole groups, groups that
  // the axes do not divide where the region is manual, no seed where one is needed.
  Result operator()(const MoeParams<Tensor>& params, const Tensor& x,
                    const std::optional<Tensor>& seed,
                    const std::optional<Tensor>& present = {}) const;

 private:
  Routes routes(const Tensor& logits, const std::optional<Tensor>& seed,
                const std::optional<Tensor>& present) const;
  Tensor by_tables(const MoeParams<Tensor>& params, const Tensor& x, const Routes& routes) const;
  Tensor by_ragged_products(const MoeParams<Tensor>& params, const Tensor& x,
                            const Routes& routes) const;
  Places<Tensor> places(const Routes& routes) const;
  Tensor sent(const Tensor& x, const Routes& routes) const;
  Tensor returned(const Tensor& rows, const Routes& routes, int64_t tokens) const;
  bool is_manual(int64_t groups) const;
  Tensor split(const Tensor& x, const std::vector<AxisList>& dims) const;

  MoeConfig config_;
  Mesh mesh_;
  MoeLayout layout_;
};

// Per device, of counts l,e (or e): the sum over layers of the experts that it holds, as the layout
// gives them to devices. Devices that hold the same experts, or parts of them, say the same.
std::vector<double> device_loads(const Array& counts, const Mesh& mesh, const MoeLayout& layout);

}  // namespace gspmd::models
