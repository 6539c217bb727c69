#pragma once

// Recurrent layers, by scan over time.

#include <utility>

#include "gspmd/api/layers.h"
#include "gspmd/base/export.h"

namespace gspmd {

// How recurrent layers read a sequence.
struct RecurrentOptions {
  bool reverse = false;  // from the last element to the first; outputs stay in the order of x
  int64_t unroll = 1;    // steps in one iteration of the loop, 1 or more
};

// What an LSTM carries from step to step.
template <class T>
struct LstmState {
  T hidden, cell;  // [b,hidden]
  GSPMD_FIELDS(hidden, cell)

  // Zeros. UserError: a size below 1.
  static LstmState init(int64_t batch, int64_t hidden, DType dtype = DType::f32,
                        Site site = Site::here()) requires std::same_as<T, Array> {
    detail::check_sizes("lstm", {{"batch", batch}, {"hidden", hidden}}, site);
    return {Array(dtype, {batch, hidden}), Array(dtype, {batch, hidden})};
  }
};

namespace detail {
// Initial weights of a recurrent layer: [in, gates, hidden] by glorot_uniform, [hidden, gates,
// hidden] with a square orthogonal matrix for each gate.
GSPMD_API Array recurrent_input(int64_t in, int64_t gates, int64_t hidden, uint32_t seed,
                                DType dtype, Site site);
GSPMD_API Array recurrent_hidden(int64_t gates, int64_t hidden, uint32_t seed, DType dtype,
                                 Site site);

// {outputs, the last state}; of x [b,in] one step, of [b,t,in] all of them.
GSPMD_API std::pair<Tensor, LstmState<Tensor>> run_lstm(const Operand& x, const Operand& hidden,
                                                        const Operand& cell, const Operand& w_input,
                                                        const Operand& w_hidden,
                                                        const Operand& bias,
                                                        const RecurrentOptions& options, Site site);
// {outputs, the last hidden}
GSPMD_API std::pair<Tensor, Tensor> run_gru(const Operand& x, const Operand& hidden,
                                            const Operand& w_input, const Operand& w_hidden,
                                            const Operand& bias, const Operand& hidden_bias,
                                            const RecurrentOptions& options, Site site);
}  // namespace detail

// Long short-term memory (Hochreiter and Schmidhuber 1997), with gates i, f, g, o of z = x w_input
// + h w_hidden + bias in this order: c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c).
// As torch.nn.LSTM. The gates have a dim of their own, so that `hidden` may be split over a mesh.
template <class T>
struct Lstm {
  T w_input;   // [in, 4, hidden]
  T w_hidden;  // [hidden, 4, hidden]
  T bias;      // [4, hidden]
  GSPMD_FIELDS(w_input, w_hidden, bias)

  // The bias is 1 for the gate f (Jozefowicz et al. 2015), else 0. UserError: a size below 1.
  static Lstm init(int64_t in, int64_t hidden, uint32_t seed, DType dtype = DType::f32,
                   Site site = Site::here()) requires std::same_as<T, Array> {
    detail::check_sizes("lstm", {{"in", in}, {"hidden", hidden}}, site);
    Array bias(dtype, {4, hidden});
    for (int64_t i = 0; i < hidden; ++i) bias.set(hidden + i, 1);
    return {detail::recurrent_input(in, 4, hidden, seed, dtype, site),
            detail::recurrent_hidden(4, hidden, seed, dtype, site), bias};
  }
  // x [b,t,in]: {the hidden values of each step [b,t,hidden], the state behind the last}.
  template <class S>
  std::pair<Tensor, LstmState<Tensor>> operator()(const Operand& x, const LstmState<S>& state,
                                                  const RecurrentOptions& options = {}) const {
    const Site s = x.site();
    return detail::run_lstm(x, Operand(state.hidden, s), Operand(state.cell, s),
                            Operand(w_input, s), Operand(w_hidden, s), Operand(bias, s), options,
                            s);
  }
  // One step: x [b,in].
  template <class S>
  LstmState<Tensor> step(const Operand& x, const LstmState<S>& state) const {
    const Site s = x.site();
    return detail::run_lstm(x, Operand(state.hidden, s), Operand(state.cell, s),
                            Operand(w_input, s), Operand(w_hidden, s), Operand(bias, s), {}, s)
        .second;
  }
};

// Gated recurrent unit (Cho et al. 2014), with gates r, z, n in this order: r and z are sigmoid(x
// w_input + bias + h w_hidden + hidden_bias), n = tanh(x w_input + bias + r (h w_hidden +
// hidden_bias)), h = (1 - z) n + z h. As torch.nn.GRU.
template <class T>
struct Gru {
  T w_input;      // [in, 3, hidden]
  T w_hidden;     // [hidden, 3, hidden]
  T bias;         // [3, hidden]
  T hidden_bias;  // [3, hidden]
  GSPMD_FIELDS(w_input, w_hidden, bias, hidden_bias)

  // Both biases are 0. UserError: a size below 1.
  static Gru init(int64_t in, int64_t hidden, uint32_t seed, DType dtype = DType::f32,
                  Site site = Site::here()) requires std::same_as<T, Array> {
    detail::check_sizes("gru", {{"in", in}, {"hidden", hidden}}, site);
    return {detail::recurrent_input(in, 3, hidden, seed, dtype, site),
            detail::recurrent_hidden(3, hidden, seed, dtype, site), Array(dtype, {3, hidden}),
            Array(dtype, {3, hidden})};
  }
  // x [b,t,in], hidden [b,hidden]: {the hidden values of each step [b,t,hidden], the last of them}.
  std::pair<Tensor, Tensor> operator()(const Operand& x, const Operand& hidden,
                                       const RecurrentOptions& options = {}) const {
    return run(x, hidden, options);
  }
  // One step: x [b,in].
  Tensor step(const Operand& x, const Operand& hidden) const { return run(x, hidden, {}).second; }

 private:
  std::pair<Tensor, Tensor> run(const Operand& x, const Operand& hidden,
                                const RecurrentOptions& options) const {
    const Site s = x.site();
    return detail::run_gru(x, hidden, Operand(w_input, s), Operand(w_hidden, s), Operand(bias, s),
                           Operand(hidden_bias, s), options, s);
  }
};

}  // namespace gspmd
