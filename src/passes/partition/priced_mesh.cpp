#include "passes/partition/priced_mesh.h"

#include <algorithm>

#include "mesh/digit_tools.h"

namespace gspmd {
namespace {

// Up to so many devices are priced one by one, more as if they were kScaled.
constexpr int64_t kCounted = 16, kScaled = 8;
// Atoms of few devices are cut into primes up to so many: all orders of more would be too many.
constexpr size_t kMostPrimes = 4;

int64_t smallest_prime(int64_t size) {
  for (int64_t prime = 2; prime * prime <= size; ++prime)
    if (size % prime == 0) return prime;
  return size;
}

std::vector<int64_t> primes_of(int64_t size) {
  std::vector<int64_t> primes;
  for (; size > 1; size /= primes.back()) primes.push_back(smallest_prime(size));
  return primes;
}

// The largest that can be are divided until few devices are left, or nothing can be divided any
// more.
std::vector<int64_t> scaled_sizes(std::vector<int64_t> sizes, int64_t devices) {
  while (devices > kScaled) {
    int64_t* largest = nullptr;
    for (int64_t& size : sizes)
      if (smallest_prime(size) < size && (!largest || size > *largest)) largest = &size;
    if (!largest) break;
    const int64_t prime = smallest_prime(*largest);
    *largest /= prime;
    devices /= prime;
  }
  return sizes;
}

}  // namespace

std::optional<PricedMesh> PricedMesh::of(DeviceOrder order, std::vector<Digits> lists,
                                         bool scales) {
  const std::optional<Digits> common = common_atoms(lists);
  if (!common) return std::nullopt;
  PricedMesh mesh;
  mesh.real_order_ = mesh.order_ = order;
  mesh.atoms_ = *common;
  const Digits unread = complement(*common, order->count);
  mesh.atoms_.insert(mesh.atoms_.end(), unread.begin(), unread.end());
  std::sort(mesh.atoms_.begin(), mesh.atoms_.end(),
            [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  std::vector<int64_t> sizes;
  for (const Digit& atom : mesh.atoms_) sizes.push_back(atom.size);
  scales = scales && order->count > kCounted;
  if (scales) sizes = scaled_sizes(std::move(sizes), order->count);
  std::vector<std::vector<int64_t>> parts;
  size_t count = 0;
  for (const int64_t size : sizes) {
    parts.push_back(primes_of(size));
    count += parts.back().size();
  }
  Digits atoms;
  for (size_t a = 0; a < sizes.size(); ++a) {
    if (count > kMostPrimes) parts[a] = {sizes[a]};
    Digit rest = mesh.atoms_[a];  // the last part is what is left
    for (size_t k = 0; k < parts[a].size(); ++k) {
      const int64_t size = k + 1 < parts[a].size() ? parts[a][k] : rest.size;
      rest.size /= size;
      atoms.push_back({size, rest.stride * rest.size});
      mesh.priced_.push_back({parts[a][k], 1});
    }
  }
  mesh.atoms_ = std::move(atoms);
  int64_t stride = 1;
  for (size_t a = mesh.priced_.size(); a-- > 0; stride *= mesh.priced_[a].size)
    mesh.priced_[a].stride = stride;
  if (scales) mesh.order_ = iota_order(stride);
  return mesh;
}

Digits PricedMesh::priced(const std::vector<int>& atoms) const {
  Digits digits;
  for (const int atom : atoms) digits.push_back(priced_[static_cast<size_t>(atom)]);
  return canonical(std::move(digits));
}

Digits PricedMesh::real(const std::vector<int>& atoms) const {
  Digits digits;
  for (const int atom : atoms) digits.push_back(atoms_[static_cast<size_t>(atom)]);
  return canonical(std::move(digits));
}

int64_t PricedMesh::real_tiles(const std::vector<int>& atoms) const {
  int64_t tiles = 1;
  for (const int atom : atoms) tiles *= atoms_[static_cast<size_t>(atom)].size;
  return tiles;
}

std::optional<std::vector<int>> PricedMesh::atoms_of(const Digits& real) const {
  std::vector<int> result;
  for (const Digit& digit : real) {
    int64_t end = digit.stride * digit.size;  // of what is left of the digit
    for (size_t a = 0; a < atoms_.size(); ++a)
      if (atoms_[a].stride * atoms_[a].size == end && atoms_[a].stride >= digit.stride) {
        result.push_back(static_cast<int>(a));
        end = atoms_[a].stride;
      }
    if (end != digit.stride) return std::nullopt;
  }
  return result;
}

std::optional<Sharding> PricedMesh::priced(const Sharding& real) const {
  if (!is_scaled() || real.is_replicated()) return real;
  if (real.order() != real_order_) return std::nullopt;
  bool known = true;
  const auto smaller = [&](const Digits& digits) {
    const std::optional<std::vector<int>> atoms = atoms_of(digits);
    known = known && atoms;
    return atoms ? priced(*atoms) : Digits{};
  };
  std::vector<Digits> dims;
  for (int64_t d = 0; d < real.rank(); ++d) dims.push_back(smaller(real.dim(d)));
  std::vector<Unreduced> sums;
  for (const Unreduced& u : real.unreduced()) sums.push_back({smaller(u.digits), u.combiner});
  if (!known) return std::nullopt;
  return Sharding::tiled(order_, std::move(dims), {}, std::move(sums));
}

}  // namespace gspmd
