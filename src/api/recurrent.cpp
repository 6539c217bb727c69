#include "gspmd/api/recurrent.h"

#include "api/emit.h"
#include "gspmd/api/arranging.h"
#include "gspmd/api/control.h"
#include "gspmd/api/einsum.h"
#include "gspmd/api/indexing.h"
#include "gspmd/api/shaping.h"

namespace gspmd {

using namespace detail;

namespace {

// UserError: a parameter or state of other dims than it has to have.
void check_dims(const char* what, const Tensor& value, const Dims& dims, const char* letters,
                const Tensor& x) {
  if (value.dims() == dims && value.dtype() == x.dtype()) return;
  call_error("the {} {} must be {}{}, {} for {}", what, describe(node_of(value)),
             dtype_name(x.dtype()), dims_text(dims), letters, describe(node_of(x)));
}

// What the layers have in common, after the checks.
struct Recurrence {
  Tensor x, hidden, w_input, w_hidden, bias;
  bool one_step;
};

Recurrence checked_recurrence(const Operand& x, const Operand& hidden, const Operand& w_input,
                              const Operand& w_hidden, const Operand& bias, int64_t gates) {
  const auto tensor = [](const Operand& operand) { return tensor_of(node_of(operand)); };
  Recurrence r{tensor(x), tensor(hidden), tensor(w_input), tensor(w_hidden), tensor(bias), false};
  need_floating(node_of(r.x));
  if (r.x.rank() != 2 && r.x.rank() != 3)
    call_error("{} must have dims [b,t,in], or [b,in] for one step", describe(node_of(r.x)));
  r.one_step = r.x.rank() == 2;
  const int64_t size = r.w_hidden.rank() == 3 ? r.w_hidden.dim(0) : 0;
  const int64_t in = r.x.dim(-1);
  check_dims("weight of the input", r.w_input, {in, gates, size}, "[in,gates,hidden]", r.x);
  check_dims("weight of the hidden values", r.w_hidden, {size, gates, size},
             "[hidden,gates,hidden]", r.x);
  check_dims("bias", r.bias, {gates, size}, "[gates,hidden]", r.x);
  check_dims("hidden state", r.hidden, {r.x.dim(0), size}, "[b,hidden]", r.x);
  return r;
}

// Gate `i` of z [b,gates,hidden].
Tensor gate(const Tensor& z, int64_t i) { return squeeze(slice_dim(z, 1, i, i + 1), 1); }

ScanOptions scan_options(const RecurrentOptions& options) {
  return {.reverse = options.reverse, .unroll = options.unroll};
}

// What x gives to all gates of all steps at once, outside of the loop: [b,in] -> [b,gates,hidden],
// [b,t,in] -> [t,b,gates,hidden].
Tensor from_input(const Recurrence& r) {
  if (r.one_step) return einsum("bi,igh->bgh", r.x, r.w_input) + r.bias;
  return einsum("bti,igh->tbgh", r.x, r.w_input) + r.bias;
}

Tensor batch_first(const Tensor& outputs) { return transpose(outputs, {1, 0, 2}); }

LstmState<Tensor> lstm_step(const Recurrence& r, const Tensor& from_x,
                            const LstmState<Tensor>& state) {
  const Tensor z = from_x + einsum("bk,kgh->bgh", state.hidden, r.w_hidden);
  const Tensor cell = sigmoid(gate(z, 1)) * state.cell + sigmoid(gate(z, 0)) * tanh(gate(z, 2));
  return {sigmoid(gate(z, 3)) * tanh(cell), cell};
}

Tensor gru_step(const Recurrence& r, const Tensor& hidden_bias, const Tensor& from_x,
                const Tensor& hidden) {
  const Tensor from_hidden = einsum("bk,kgh->bgh", hidden, r.w_hidden) + hidden_bias;
  const Tensor reset = sigmoid(gate(from_x, 0) + gate(from_hidden, 0));
  const Tensor kept = sigmoid(gate(from_x, 1) + gate(from_hidden, 1));
  const Tensor fresh = tanh(gate(from_x, 2) + reset * gate(from_hidden, 2));
  return fresh + kept * (hidden - fresh);
}

}  // namespace

namespace detail {

Array recurrent_input(int64_t in, int64_t gates, int64_t hidden, uint32_t seed, DType dtype,
                      Site site) {
  return glorot_uniform({dtype, {in, gates, hidden}}, seed,
                        {.in_axes = {0}, .out_axes = {2}, .batch_axes = {1}, .stream = 0}, site);
}

Array recurrent_hidden(int64_t gates, int64_t hidden, uint32_t seed, DType dtype, Site site) {
  Array weights(dtype, {hidden, gates, hidden});
  for (int64_t g = 0; g < gates; ++g) {
    const Array square = orthogonal({dtype, {hidden, hidden}}, seed, {.stream = 1 + g}, site);
    for (int64_t i = 0; i < hidden; ++i)
      for (int64_t j = 0; j < hidden; ++j)
        weights.set((i * gates + g) * hidden + j, square.at(i * hidden + j));
  }
  return weights;
}

std::pair<Tensor, LstmState<Tensor>> run_lstm(const Operand& x, const Operand& hidden,
                                              const Operand& cell, const Operand& w_input,
                                              const Operand& w_hidden, const Operand& bias,
                                              const RecurrentOptions& options, Site site) {
  return call("lstm", site, [&] {
    const Recurrence r = checked_recurrence(x, hidden, w_input, w_hidden, bias, 4);
    const LstmState<Tensor> first{r.hidden, tensor_of(node_of(cell))};
    check_dims("cell", first.cell, r.hidden.dims(), "[b,hidden]", r.x);
    if (r.one_step) {
      const LstmState<Tensor> next = lstm_step(r, from_input(r), first);
      return std::pair{next.hidden, next};
    }
    const auto result = scan(
        [&](const LstmState<Tensor>& state, const Tensor& from_x) {
          const LstmState<Tensor> next = lstm_step(r, from_x, state);
          return std::pair{next, next.hidden};
        },
        first, from_input(r), scan_options(options), site);
    return std::pair{batch_first(result.second), result.first};
  });
}

std::pair<Tensor, Tensor> run_gru(const Operand& x, const Operand& hidden, const Operand& w_input,
                                  const Operand& w_hidden, const Operand& bias,
                                  const Operand& hidden_bias, const RecurrentOptions& options,
                                  Site site) {
  return call("gru", site, [&] {
    const Recurrence r = checked_recurrence(x, hidden, w_input, w_hidden, bias, 3);
    const Tensor own_bias = tensor_of(node_of(hidden_bias));
    check_dims("bias of the hidden values", own_bias, r.bias.dims(), "[gates,hidden]", r.x);
    if (r.one_step) {
      const Tensor next = gru_step(r, own_bias, from_input(r), r.hidden);
      return std::pair{next, next};
    }
    const auto result = scan(
        [&](const Tensor& state, const Tensor& from_x) {
          const Tensor next = gru_step(r, own_bias, from_x, state);
          return std::pair{next, next};
        },
        r.hidden, from_input(r), scan_options(options), site);
    return std::pair{batch_first(result.second), result.first};
  });
}

}  // namespace detail
}  // namespace gspmd
