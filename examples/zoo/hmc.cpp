// Hamiltonian Monte Carlo (Neal 2011): many chains draw from a distribution whose moments are
// known, a banana: x is normal with deviation 2, y given x normal around x^2 / 4 with deviation
// 0.5. Leapfrog steps follow the gradient of the density inside of a loop over draws; chains are a
// batch by vmap, split over the mesh.
#include "examples/zoo/zoo.h"

using namespace gspmd;

namespace {

Tensor log_density(Tensor q) {  // of (x, y), but for a constant
  const Tensor x = q(0), y = q(1);
  return -square(x) / 8 - 2 * square(y - square(x) / 4);
}

template <class T>
struct Phase {
  T q, p;  // 2: position and momentum
  GSPMD_FIELDS(q, p)
};

Tensor energy(const Phase<Tensor>& s) { return 0.5 * sum(square(s.p)) - log_density(s.q); }

Phase<Tensor> leapfrog(Phase<Tensor> s, int64_t steps, double size) {
  const auto force = grad(log_density);
  s.p += 0.5 * size * force(s.q);
  s = fori_loop(
      0, steps - 1,
      [&](Tensor, Phase<Tensor> now) {
        now.q += size * now.p;
        now.p += size * force(now.q);
        return now;
      },
      s);
  s.q += size * s.p;
  s.p += 0.5 * size * force(s.q);
  return s;
}

// {draws d,2, share of proposals accepted} of the chain with this seed.
auto chain(Tensor seed, int64_t draws) {
  const auto [last, found] = scan(
      [&](Tensor q, Tensor i) {
        const Tensor key = seed * 100003 + i;
        const Phase<Tensor> start{q, random_normal(key, {2})};
        const Phase<Tensor> proposal = leapfrog(start, 16, 0.25);
        const Tensor ratio = exp(energy(start) - energy(proposal));
        const Tensor accepted = random_uniform(key, {}, {.stream = 1}) < ratio;
        q = cond(
            accepted, [](Tensor, Tensor to) { return to; },
            [](Tensor from, Tensor) { return from; }, q, proposal.q);
        return std::pair{q, std::pair{q, convert(accepted, DType::f32)}};
      },
      random_normal(seed, {2}, {.stream = 2}), arange(draws));
  return std::pair{found.first, mean(found.second)};
}

void model(const zoo::Options& o, zoo::Report& report) {
  const int64_t chains = o.small ? 36 : 100, draws = o.steps_or(1000, 150);
  Array seeds(DType::s32, {chains});
  for (int64_t i = 0; i < chains; ++i) seeds.set(i, double(i));
  const auto all_chains = [&](Tensor seed) {
    seed = mesh_split(seed, o.mesh, {{"data", "model"}});
    return vmap([&](Tensor one) { return chain(one, draws); })(seed);
  };
  const auto [found, accepted] = zoo::run_once(o.mesh, all_chains, seeds);

  const auto moments = [&](Tensor q, Tensor rate) {  // c,d,2
    const Tensor x = q(all, range(draws / 10, {}), 0), y = q(all, range(draws / 10, {}), 1);
    return stack({mean(x), var(x), mean(y), var(y), mean(x * x * y), mean(rate)});
  };
  const Array seen = zoo::run_once(o.mesh, moments, found, accepted);
  // y = x^2 / 4 + e: E y = 1, var y = 2 + 1/4, E x^2 y = E x^4 / 4 = 12.
  const struct {
    const char* name;
    double expected, deviation;
  } known[] = {{"the mean of x", 0, 2},
               {"its variance", 4, 5.7},
               {"the mean of y", 1, 1.5},
               {"its variance", 2.25, 6},
               {"the mean of x^2 y", 12, 40}};
  for (int64_t i = 0; i < 5; ++i) {
    const double error = 5 * known[i].deviation / std::sqrt(double(chains * draws) / 5);
    report.claim(std::abs(seen.at(i) - known[i].expected) < error,
                 fmt::format("{} is {:.3f}, {:.3f} by the formula, +- {:.3f}", known[i].name,
                             seen.at(i), known[i].expected, error));
    report.number(known[i].name, seen.at(i));
  }
  report.claim(seen.at(5) > 0.7,
               fmt::format("{:.1f} % of proposals are accepted", 100 * seen.at(5)));
}

}  // namespace

int main(int argc, char** argv) { return zoo::run(argc, argv, model, 0.05); }
