// Attention as it runs: block of rows by block of rows, forward and backward, against the reference
// interpreter.
#include "api/support.h"
#include "gspmd/ir/module.h"
#include "load.h"

using namespace gspmd;
using namespace gspmd::test;

namespace attention_rows_test {
namespace {

int64_t fusions_of_rows(const ExecutableBase& executable) {
  int64_t count = 0;
  for (const auto& node : executable.module().program->entry()->nodes())
    count += node->is(Opcode::fusion) && *node->attrs.fusion_kind == "kCustom";
  return count;
}

struct Sizes {
  int64_t batch = 2, queries = 70, keys = 70, kv_heads = 2, groups = 1, dim = 24;
};

struct Inputs {
  Array query, key, value, weight;
};
Inputs inputs_of(const Sizes& s, DType dtype, unsigned seed, double range = 1) {
  const Dims q{s.batch, s.queries, s.kv_heads * s.groups, s.dim};
  const Dims k{s.batch, s.keys, s.kv_heads, s.dim};
  return {random_array({dtype, q}, seed, -range, range),
          random_array({dtype, k}, seed + 1, -range, range), random_array({dtype, k}, seed + 2),
          random_array({dtype, q}, seed + 3)};
}

// The loss of an attention, and its gradients; on a mesh with batches and heads split.
auto step_of(const AttentionOptions& options, const Mesh& mesh = {}) {
  return value_and_grad<0, 1, 2>([=](Tensor q, Tensor k, Tensor v, Tensor w) {
    if (mesh.num_devices() > 1) {
      q = mesh_split(q, mesh, {"data", _, "model", _});
      k = mesh_split(k, mesh, {"data", _, "model", _});
    }
    return sum(square(dot_product_attention(q, k, v, options)) * w);
  });
}

template <class Step>
Expectation runs_as_reference(const Step& step, const Inputs& x, const Mesh& mesh,
                              Tolerance tolerance, int64_t fusions) {
  const auto executable = compile(step, {.mesh = mesh}, x.query, x.key, x.value, x.weight);
  CHECK(fusions_of_rows(executable) == fusions);
  const auto [loss, grads] = executable(x.query, x.key, x.value, x.weight);
  const std::vector<Array> expected = reference_results(step, x.query, x.key, x.value, x.weight);
  return expect_close({loss, std::get<0>(grads), std::get<1>(grads), std::get<2>(grads)}, expected,
                      tolerance, "attention");
}

const Tolerance kTight{2e-5, 2e-5};

}  // namespace

TEST_CASE("attention and its gradient are two fusions that hold no scores", "[api][rows]") {
  const Sizes sizes{.batch = 2, .queries = 256, .keys = 256, .dim = 16};
  const Inputs x = inputs_of(sizes, DType::f32, 1);
  const auto executable = compile(step_of({.causal = true}), {}, x.query, x.key, x.value, x.weight);
  CHECK(fusions_of_rows(executable) == 2);
  // Scores of all heads would have 1 MiB.
  CHECK(executable.module().plan.arena_bytes < (1 << 20));
}

TEST_CASE("attention with every mask is what the reference gives", "[api][rows]") {
  const Array lengths = Array::of<int32_t>({2}, {70, 13}), none = Array::of<int32_t>({2}, {0, 64});
  const Array seen = random_integers({DType::pred, {2, 4, 70, 150}}, 5, 0, 1);
  const Array places = random_integers({DType::s32, {2, 70}}, 6, 0, 149);
  struct Case {
    const char* name;
    AttentionOptions options;
    Sizes sizes;
  };
  const Sizes more{.queries = 70, .keys = 150, .groups = 2, .dim = 5};
  const Sizes square{.queries = 150, .keys = 150, .groups = 2};
  const Case cases[] = {
      {"plain", {}, more},
      {"causal", {.causal = true}, square},
      {"causal, more keys", {.causal = true}, more},
      {"window", {.window = 20}, square},
      {"causal window", {.causal = true, .window = 9}, square},
      {"scaled", {.causal = true, .scale = 3}, square},
      {"lengths", {.key_lengths = lengths}, more},
      {"causal and lengths", {.causal = true, .key_lengths = lengths}, more},
      {"rows that see nothing", {.causal = true, .key_lengths = none}, more},
      {"mask", {.mask = seen}, more},
      {"causal and mask", {.causal = true, .mask = seen}, more},
      {"positions", {.causal = true, .query_positions = places}, more},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    const Inputs x = inputs_of(c.sizes, DType::f32, 11);
    REQUIRE(runs_as_reference(step_of(c.options), x, Mesh(), kTight, 2));
  }
}

TEST_CASE("attention on a mesh is what the reference gives", "[api][rows]") {
  const Mesh mesh{{"data", 2}, {"model", 2}};
  for (const int64_t groups : {1, 2}) {
    const Sizes sizes{.batch = 8, .queries = 140, .keys = 140, .kv_heads = 2, .groups = groups};
    const Inputs x = inputs_of(sizes, DType::f32, 3);
    REQUIRE(runs_as_reference(step_of({.causal = true}, mesh), x, mesh, kTight, 2));
  }
}

TEST_CASE("attention of random sizes is what the reference gives", "[api][rows]") {
  for (int64_t seed = 1; seed <= random_load(40); ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % uint64_t(n)); };
    Sizes s{.batch = 2 + below(3),
            .queries = 16 + below(200),
            .keys = 32 + below(300),
            .kv_heads = 2,
            .groups = 1 + below(3),
            .dim = 1 + below(70)};
    AttentionOptions options;
    options.causal = below(2) == 0;
    if (below(3) == 0) options.window = 1 + below(100);
    if (options.causal) s.keys = std::max(s.keys, s.queries);
    INFO("seed " << seed << ": " << s.batch << " " << s.queries << " " << s.keys << " " << s.groups
                 << " " << s.dim << " causal " << options.causal << " window "
                 << options.window.value_or(0));
    const bool is_large = s.batch * s.kv_heads * s.groups * s.queries * s.keys >= 65536;
    const Inputs x = inputs_of(s, DType::f32, static_cast<unsigned>(seed));
    REQUIRE(runs_as_reference(step_of(options), x, Mesh(), kTight, is_large ? 2 : 0));
  }
}

TEST_CASE("attention of hidden rows, infinite and huge scores is what the reference gives",
          "[api][rows]") {
  Inputs x = inputs_of({.queries = 130, .keys = 130}, DType::f32, 7);
  const auto forward = [](Tensor q, Tensor k, Tensor v, const Tensor&) {
    return dot_product_attention(q, k, v, {.causal = true});
  };
  const auto check = [&](const char* what) {
    INFO(what);
    const auto executable = compile(forward, {}, x.query, x.key, x.value, x.weight);
    CHECK(fusions_of_rows(executable) == 1);
    REQUIRE(expect_close(std::vector<Array>{executable(x.query, x.key, x.value, x.weight)},
                         reference_results(forward, x.query, x.key, x.value, x.weight), kTight,
                         what));
  };
  const int64_t row = 2 * 24;  // of one place of one batch
  for (int64_t i = 0; i < row; ++i) x.query.set(5 * row + i, 1e30), x.key.set(3 * row + i, -1e30);
  check("scores of minus infinity");
  for (int64_t i = 0; i < row; ++i) x.key.set(3 * row + i, 1e30);
  check("scores of infinity");
  for (int64_t i = 0; i < row; ++i) x.query.set(5 * row + i, -3e18), x.key.set(3 * row + i, 3e18);
  for (int64_t j = 0; j < 6; ++j)
    for (int64_t i = 0; i < row; ++i) x.key.set(j * row + i, 3e18);
  check("scores below what hides others");
  for (int64_t i = 0; i < row; ++i) x.query.set(5 * row + i, std::nan(""));
  check("NaN");
}

TEST_CASE("scores and their gradients may be turned on the way", "[api][rows]") {
  const auto step = value_and_grad<0, 1, 2>([](Tensor q, Tensor k, Tensor v, Tensor w) {
    const Tensor grouped = reshape(q, {2, 70, 2, 3, 8});
    const Tensor scores = causal_mask(einsum("btkgd,bskd->kbgts", grouped, k));
    const Tensor y = einsum("kbgts,bskd->btkgd", softmax(scores), v);
    return sum(square(reshape(y, {2, 70, 6, 8})) * w);
  });
  const Inputs x = inputs_of({.keys = 90, .groups = 3, .dim = 8}, DType::f32, 9);
  REQUIRE(runs_as_reference(step, x, Mesh(), kTight, 2));
}

// Attention in which q, k, v, the scores before and after their scale and mask, and the result each
// have their dims in another order: b, k batches, g, t rows, s columns, d what is summed.
struct TurnedAttention {
  std::string q, k, v, product, scores, result;
  std::map<char, int64_t> size;
  bool is_causal = false, has_bias = false, has_soft_cap = false;

  // Where `is_fusible`, the scores are large enough for fusions of rows, and have no bias, whose
  // gradient needs the scores' gradient itself.
  TurnedAttention(std::mt19937_64& random, bool is_fusible) {
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % uint64_t(n)); };
    const int64_t batches = is_fusible ? 2 : 1, rows = is_fusible ? 128 : 16;
    size = {{'b', batches + below(3)}, {'k', batches + below(3)},   {'g', 1 + below(3)},
            {'t', rows + below(50)},   {'s', 2 * rows + below(50)}, {'d', 1 + below(20)}};
    const auto shuffled = [&](std::string dims) {
      std::shuffle(dims.begin(), dims.end(), random);
      return dims;
    };
    q = shuffled("btkgd"), k = shuffled("bskd"), v = shuffled("bskd");
    product = shuffled("bkgts"), scores = shuffled("bkgts"), result = shuffled("btkgd");
    is_causal = below(2) == 0, has_soft_cap = below(2) == 0;
    has_bias = !is_fusible && below(3) > 0;
  }

  Dims dims(const std::string& letters) const {
    Dims dims;
    for (const char c : letters) dims.push_back(size.at(c));
    return dims;
  }
  static Tensor turned(const Tensor& x, const std::string& from, const std::string& to) {
    std::vector<int64_t> permutation;
    for (const char c : to) permutation.push_back(static_cast<int64_t>(from.find(c)));
    return transpose(x, permutation);
  }

  Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& bias) const {
    Tensor x = einsum(runtime_spec(q + "," + k + "->" + product), a, b) * 0.25;
    if (has_soft_cap) x = tanh(x) * 3.;
    x = turned(x, product, scores);
    if (has_bias) {
      std::string heads;  // the bias has the dims k, g, t, s
      for (const char letter : scores)
        if (letter != 'b') heads += letter;
      Dims with_batch = dims(scores);
      with_batch[scores.find('b')] = 1;
      x = x + reshape(turned(bias, "kgts", heads), with_batch);
    }
    if (is_causal) {
      const auto place = [&](char letter) {
        return iota({DType::s32, dims(scores)}, static_cast<int64_t>(scores.find(letter)));
      };
      x = where(place('t') + (size.at('s') - size.at('t')) >= place('s'), x, -1e30);
    }
    const Tensor weights = softmax(x, {.axis = static_cast<int64_t>(scores.find('s'))});
    return einsum(runtime_spec(scores + "," + v + "->" + result), weights, c);
  }
};

TEST_CASE("attention in any order of dims is what the reference gives", "[api][rows]") {
  for (int64_t seed = 1; seed <= random_load(40); ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const bool is_fusible = seed % 2 == 1;
    const TurnedAttention attention(random, is_fusible);
    INFO("seed " << seed << ": " << attention.q << "," << attention.k << "->" << attention.product
                 << " " << attention.scores << "," << attention.v << "->" << attention.result);
    const auto step = value_and_grad<0, 1, 2, 3>([&](Tensor q, Tensor k, Tensor v, Tensor bias) {
      return sum(square(attention(q, k, v, bias)) * 0.5);
    });
    const auto of = [&](const std::string& letters, unsigned number) {
      return random_array({DType::f32, attention.dims(letters)}, number);
    };
    const Array q = of(attention.q, 1), k = of(attention.k, 2), v = of(attention.v, 3),
                bias = of("kgts", 4);
    const auto executable = compile(step, {}, q, k, v, bias);
    const auto [loss, grads] = executable(q, k, v, bias);
    REQUIRE(expect_close(
        {loss, std::get<0>(grads), std::get<1>(grads), std::get<2>(grads), std::get<3>(grads)},
        reference_results(step, q, k, v, bias), kTight, "attention"));
    if (is_fusible) CHECK(fusions_of_rows(executable) == 2);
  }
}

TEST_CASE("values of rows may keep a dim of size 1", "[api][rows]") {
  // The derivative of a softmax as JAX writes it, and log-sum-exp.
  const auto step = value_and_grad<0, 1, 2>([](Tensor q, Tensor k, Tensor v, Tensor w) {
    const Tensor scores = causal_mask(einsum("btnd,bsnd->bnts", q, k));
    const Tensor most = stop_gradient(max(scores, {.axes = -1, .keep_dims = true}));
    const Tensor powers = exp(scores - most);
    const Tensor all = log(sum(powers, {.axes = -1, .keep_dims = true})) + most;
    const Tensor y = einsum("bnts,bsnd->btnd", exp(scores - all), v);
    return sum(square(y) * w);
  });
  const Inputs x = inputs_of({.queries = 150, .keys = 150}, DType::f32, 15);
  REQUIRE(runs_as_reference(step, x, Mesh(), kTight, 2));
}

TEST_CASE("attention is one fusion with its gradient where that does not wait for it",
          "[api][rows]") {
  const auto step = value_and_grad<0, 1, 2>([](Tensor q, Tensor k, Tensor v, Tensor w) {
    return sum(dot_product_attention(q, k, v, {.causal = true}) * w);
  });
  const Inputs x = inputs_of({.queries = 150, .keys = 150}, DType::f32, 5);
  REQUIRE(runs_as_reference(step, x, Mesh(), kTight, 1));
}

TEST_CASE("weights that are asked for are whole", "[api][rows]") {
  const auto both = [](Tensor q, Tensor k, Tensor v) {
    const Tensor weights = softmax(einsum("btd,bsd->bts", q, k));
    return std::pair{weights, einsum("bts,bsd->btd", weights, v)};
  };
  const Array q = random_array({DType::f32, {4, 128, 8}}, 1);
  const auto executable = compile(both, {}, q, q, q);
  CHECK(fusions_of_rows(executable) == 0);
  const auto [weights, y] = executable(q, q, q);
  REQUIRE(expect_close({weights, y}, reference_results(both, q, q, q), kTight, "weights"));
}

TEST_CASE("attention without a softmax, and one in another, are what the reference gives",
          "[api][rows]") {
  const auto linear = [](Tensor q, Tensor k, Tensor v) {
    return einsum("bts,bsd->btd", einsum("btd,bsd->bts", q, k), v);
  };
  const auto nested = [&](Tensor q, Tensor k, Tensor v) {
    const Tensor y = einsum("bts,bsd->btd", softmax(einsum("btd,bsd->bts", q, k)), v);
    return einsum("bts,bsd->btd", softmax(einsum("btd,bsd->bts", y, k) * 2.), linear(y, q, v));
  };
  const Array q = random_array({DType::f32, {8, 128, 8}}, 1),
              k = random_array({DType::f32, {8, 96, 8}}, 2),
              v = random_array({DType::f32, {8, 96, 8}}, 3);
  const auto executable = compile(linear, {}, q, k, v);
  CHECK(fusions_of_rows(executable) == 1);
  REQUIRE(expect_close(std::vector<Array>{executable(q, k, v)}, reference_results(linear, q, k, v),
                       kTight, "linear"));
  const auto other = compile(nested, {}, k, k, v);
  CHECK(fusions_of_rows(other) == 3);
  REQUIRE(expect_close(std::vector<Array>{other(k, k, v)}, reference_results(nested, k, k, v),
                       kTight, "nested"));
}

TEST_CASE("attention of 16-bit floats is what the reference gives", "[api][rows]") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Inputs x = inputs_of({.queries = 150, .keys = 150, .groups = 2}, dtype, 21);
    const double step = dtype == DType::bf16 ? 1.0 / 128 : 1.0 / 1024;
    REQUIRE(runs_as_reference(step_of({.causal = true}), x, Mesh(), {2 * step, 4 * step}, 2));
  }
}

}  // namespace attention_rows_test
