// What products send against the least that any way of laying their loops over the devices does, at
// no more work of a device: random dots, dots of batches, convolutions and sums over four meshes,
// half of them with an annotated result. One line per kind and mesh, one in all, as JSON.
//   products [--count 1000] [--seed 1] [--worst 0] [--chains]
// With --chains: two products in a row with an elementwise op between them that nobody annotates,
// against all layouts of that value too, over the meshes of 8 devices.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "bench/report.h"
#include "passes/product_ways.h"

namespace {

using namespace gspmd;

struct Outcome {
  int64_t sent = 0, least = 0;
  std::string text, layout;
  double ratio() const {
    if (sent <= least) return 1;
    return double(sent) / double(std::max<int64_t>(1, least));
  }
};

struct Tally {
  int64_t count = 0, at_least = 0, above_half = 0, above_twice = 0, below = 0;
  double worst = 1, sent = 0, least = 0;
  double seconds = 0;  // of the partitioner

  void add(const Outcome& outcome) {
    ++count;
    at_least += outcome.sent <= outcome.least ? 1 : 0;
    below += outcome.sent < outcome.least ? 1 : 0;
    above_half += outcome.ratio() > 1.5 ? 1 : 0;
    above_twice += outcome.ratio() > 2 ? 1 : 0;
    worst = std::max(worst, outcome.ratio());
    sent += double(outcome.sent);
    least += double(outcome.least);
  }

  std::vector<Figure> figures() const {
    return {{"count", double(count), Better::same},
            {"share_at_least", double(at_least) / double(count), Better::higher},
            {"share_above_1.5", double(above_half) / double(count)},
            {"share_above_2", double(above_twice) / double(count)},
            {"worst_ratio", worst},
            {"total_ratio", sent / std::max(1.0, least)},
            {"below", double(below), Better::same},
            {"s", seconds}};
  }
};

const std::map<ProductKind, std::string> kNames = {{ProductKind::dot, "dot"},
                                                   {ProductKind::batch_dot, "batch dot"},
                                                   {ProductKind::convolution, "convolution"},
                                                   {ProductKind::reduce, "reduce"}};
const std::vector<std::vector<int64_t>> kMeshes = {{2, 4}, {2, 2, 2}, {8}, {4, 4}};

// The worst of all, and whether enough are at the least.
int judge(const std::map<std::string, Tally>& tallies, std::vector<Outcome> outcomes, size_t worst,
          Report& report) {
  for (const auto& [what, tally] : tallies) report.add(what, tally.figures());
  report.write();
  std::stable_sort(outcomes.begin(), outcomes.end(),
                   [](const Outcome& a, const Outcome& b) { return a.ratio() > b.ratio(); });
  for (size_t i = 0; i < std::min(worst, outcomes.size()); ++i)
    fmt::print("{} bytes, {} by {}\n{}\n", outcomes[i].sent, outcomes[i].least, outcomes[i].layout,
               outcomes[i].text);
  const Tally& all = tallies.at("all");
  return double(all.at_least) >= 0.95 * double(all.count) && all.above_half == 0 ? 0 : 1;
}

int run_chains(int64_t count, uint32_t seed, size_t worst, Report& report) {
  std::map<std::string, Tally> tallies;
  std::vector<Outcome> outcomes;
  for (int64_t n = 0; n < count; ++n) {
    std::mt19937 random(seed * 1'000'003u + uint32_t(n));
    const auto& mesh = kMeshes[size_t(n % 3)];
    const ProductChain chain = random_chain(mesh, n / 3 % 2 == 0, random);
    const ChainProgram program = program_of(chain);
    const ProductCost least = least_way(chain, program);
    outcomes.push_back({program.bytes, least.bytes, chain.text + program.text, least.layout});
    for (const std::string& key :
         {std::string("all"), fmt::format("mesh {}", fmt::join(mesh, " by "))})
      tallies[key].add(outcomes.back());
  }
  return judge(tallies, std::move(outcomes), worst, report);
}

int run(int64_t count, uint32_t seed, size_t worst, Report& report) {
  std::map<std::string, Tally> tallies;
  std::vector<Outcome> outcomes;
  double work = 0, least_work = 0;
  for (int64_t n = 0; n < count; ++n) {
    std::mt19937 random(seed * 1'000'003u + uint32_t(n));
    const auto kind = std::next(kNames.begin(), n % 4);
    const auto& mesh = kMeshes[size_t(n / 4 % 4)];
    const Product product = random_product(kind->first, mesh, n / 16 % 2 == 0, random);
    const auto start = std::chrono::steady_clock::now();
    const ProductProgram program = program_of(product);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const ProductCost least = least_way(product, program.result, program.cost.work);
    outcomes.push_back(
        {program.cost.bytes, least.bytes, product.text + program.text, least.layout});
    for (const std::string& key :
         {std::string("all"), kind->second, fmt::format("mesh {}", fmt::join(mesh, " by "))}) {
      tallies[key].add(outcomes.back());
      tallies[key].seconds += took.count();
    }
    work += double(program.cost.work);
    least_work += double(least.work);
  }
  report.add("work",
             {{"elements", work, Better::same}, {"elements_of_least", least_work, Better::same}});
  return judge(tallies, std::move(outcomes), worst, report);
}

}  // namespace

int main(int argc, char** argv) {
  int64_t count = 1000;
  uint32_t seed = 1;
  size_t worst = 0;
  CommandLine line("What products send against the least of all ways.");
  line.number("--count", count);
  line.option("--seed", seed);
  line.option("--worst", worst, "print so many of the worst programs");
  bool chains = false;
  line.flag("--chains", chains, "two products in a row");
  Report report(line, "products");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    return chains ? run_chains(count, seed, worst, report) : run(count, seed, worst, report);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
