#include "gspmd/mesh/digits.h"

#include <algorithm>
#include <numeric>

#include "gspmd/base/shape.h"
#include "mesh/digit_tools.h"

namespace gspmd {

int64_t tile_count(const Digits& digits) {
  int64_t count = 1;
  for (const Digit& d : digits) count = saturating_multiply(count, d.size);
  return count;
}

int64_t tile_index(const Digits& digits, int64_t rank) {
  int64_t index = 0;
  for (const Digit& d : digits) index = index * d.size + (rank / d.stride) % d.size;
  return index;
}

Digits canonical(Digits digits) {
  Digits out;
  out.reserve(digits.size());
  for (const Digit& d : digits) {
    if (d.size == 1) continue;
    if (!out.empty() && out.back().stride == d.size * d.stride)
      out.back() = {out.back().size * d.size, d.stride};
    else
      out.push_back(d);
  }
  return out;
}

std::optional<Digits> common_atoms(std::span<const Digits> lists) {
  std::vector<int64_t> cuts;
  for (const Digits& list : lists) {
    for (const Digit& d : list) {
      if (d.size == 1) continue;
      cuts.push_back(d.stride);
      cuts.push_back(d.stride * d.size);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (size_t i = 1; i < cuts.size(); ++i)
    if (cuts[i] % cuts[i - 1] != 0) return std::nullopt;
  Digits atoms;
  for (size_t i = cuts.size(); i-- > 1;) {
    const int64_t low = cuts[i - 1];
    const int64_t high = cuts[i];
    bool covered = false;
    for (const Digits& list : lists)
      for (const Digit& d : list) covered |= d.stride <= low && high <= d.stride * d.size;
    if (covered) atoms.push_back({high / low, low});
  }
  return atoms;
}

Digits split_into(const Digits& digits, const Digits& atoms) {
  Digits out;
  for (const Digit& d : digits)
    for (const Digit& atom : atoms)
      if (d.stride <= atom.stride && atom.stride < d.stride * d.size) out.push_back(atom);
  return out;
}

namespace {

// Whether digits that share nothing have a common chain, `high` above `low`.
bool stands_above(const Digit& high, const Digit& low) {
  return high.stride % (low.size * low.stride) == 0;
}

// select_atoms() of at most one digit each that are equal or share nothing, as most are: without
// atoms. Whether it is such a case.
bool select_plainly(const Digits& a, const Digits& b, bool wanted, Digits& out) {
  if (a.size() > 1 || b.size() > 1) return false;
  bool contained = false;
  if (a.size() == 1 && b.size() == 1) {
    contained = a[0] == b[0];
    if (!contained && !stands_above(a[0], b[0]) && !stands_above(b[0], a[0])) return false;
  }
  if (contained == wanted) out = canonical(a);
  return true;
}

// The atoms of `a` for which `contained in b` equals `wanted`, in the order of `a`.
std::optional<Digits> select_atoms(const Digits& a, const Digits& b, bool wanted) {
  if (Digits plain; select_plainly(a, b, wanted, plain)) return plain;
  const Digits lists[] = {a, b};
  const std::optional<Digits> atoms = common_atoms(lists);
  if (!atoms) return std::nullopt;
  const Digits in_b = split_into(b, *atoms);
  Digits out;
  for (const Digit& atom : split_into(a, *atoms)) {
    const bool contained = std::find(in_b.begin(), in_b.end(), atom) != in_b.end();
    if (contained == wanted) out.push_back(atom);
  }
  return canonical(std::move(out));
}

}  // namespace

bool disjoint(const Digits& a, const Digits& b) {
  const std::optional<Digits> shared = select_atoms(a, b, true);
  return shared && shared->empty();
}

std::optional<Digits> intersection(const Digits& a, const Digits& b) {
  return select_atoms(a, b, true);
}

std::optional<Digits> difference(const Digits& a, const Digits& b) {
  return select_atoms(a, b, false);
}

Digits common_prefix(const Digits& a, const Digits& b) {
  Digits rest_a = canonical(a);
  Digits rest_b = canonical(b);
  Digits prefix;
  size_t i = 0;
  size_t j = 0;
  while (i < rest_a.size() && j < rest_b.size()) {
    Digit& x = rest_a[i];
    Digit& y = rest_b[j];
    const int64_t top = x.size * x.stride;
    if (top != y.size * y.stride) break;
    // The lowest cut that both digits allow.
    const int64_t cut = std::lcm(x.stride, y.stride);
    if (cut == top) break;
    prefix.push_back({top / cut, cut});
    if (cut != x.stride && cut != y.stride) break;
    if (cut == x.stride)
      ++i;
    else
      x.size = cut / x.stride;
    if (cut == y.stride)
      ++j;
    else
      y.size = cut / y.stride;
  }
  return canonical(std::move(prefix));
}

bool is_prefix(const Digits& prefix, const Digits& digits) {
  return common_prefix(prefix, digits) == canonical(prefix);
}

Digits concat(Digits major, const Digits& minor) {
  major.insert(major.end(), minor.begin(), minor.end());
  return canonical(std::move(major));
}

bool fits(Digits digits, int64_t count) {
  std::sort(digits.begin(), digits.end(),
            [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
  int64_t end = 1;
  for (const Digit& d : digits) {
    if (d.size < 1 || d.stride < 1 || d.stride % end != 0) return false;
    if (__builtin_mul_overflow(d.stride, d.size, &end)) return false;
  }
  return count % end == 0;
}

Digits complement(Digits digits, int64_t count) {
  std::sort(digits.begin(), digits.end(),
            [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
  Digits gaps;
  int64_t end = 1;
  for (const Digit& d : digits) {
    if (d.stride > end) gaps.push_back({d.stride / end, end});
    end = d.stride * d.size;
  }
  if (count > end) gaps.push_back({count / end, end});
  std::reverse(gaps.begin(), gaps.end());
  return gaps;
}

Digits as_set(Digits digits) {
  std::sort(digits.begin(), digits.end(),
            [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  return canonical(std::move(digits));
}

std::vector<int64_t> ranks_in_order(const Digits& sequence) {
  std::vector<int64_t> ranks;
  ranks.reserve(static_cast<size_t>(tile_count(sequence)));
  ranks.push_back(0);
  for (size_t i = sequence.size(); i-- > 0;) {
    const size_t inner = ranks.size();
    for (int64_t c = 1; c < sequence[i].size; ++c)
      for (size_t k = 0; k < inner; ++k) ranks.push_back(c * sequence[i].stride + ranks[k]);
  }
  return ranks;
}

IotaForm iota_form(Digits sequence) {
  sequence = canonical(std::move(sequence));
  if (sequence.empty()) return {{1}, {}};
  std::vector<int64_t> by_stride(sequence.size());
  std::iota(by_stride.begin(), by_stride.end(), 0);
  std::sort(by_stride.begin(), by_stride.end(), [&](int64_t a, int64_t b) {
    return sequence[static_cast<size_t>(a)].stride > sequence[static_cast<size_t>(b)].stride;
  });
  IotaForm form;
  form.transpose.resize(sequence.size());
  for (size_t i = 0; i < by_stride.size(); ++i) {
    form.reshape.push_back(sequence[static_cast<size_t>(by_stride[i])].size);
    form.transpose[static_cast<size_t>(by_stride[i])] = static_cast<int64_t>(i);
  }
  // Canonical neighbours never join, so only a single digit is in identity order.
  if (form.reshape.size() == 1) form.transpose.clear();
  return form;
}

std::vector<Digits> row_major_digits(std::span<const int64_t> dims) {
  std::vector<Digits> digits(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] > 1) digits[i] = {{dims[i], stride}};
    stride *= dims[i];
  }
  return digits;
}

std::optional<std::vector<Digits>> find_digits(std::span<const int64_t> dims,
                                               std::span<const int64_t> ranks) {
  if (ranks.empty() || ranks[0] != 0) return std::nullopt;
  std::vector<Digits> result(dims.size());
  Digits sequence;
  int64_t step = static_cast<int64_t>(ranks.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    step /= dims[i];
    const auto at = [&](int64_t k) { return ranks[static_cast<size_t>(k * step)]; };
    // Minor digit first: its size is the longest run of equal steps, since neighbours that continue
    // each other are one digit.
    Digits& digits = result[i];
    for (int64_t unit = 1; unit < dims[i];) {
      const int64_t stride = at(unit);
      int64_t run = 2;
      while (unit * run < dims[i] && at(unit * run) == run * stride) ++run;
      if (stride < 1 || dims[i] % (unit * run) != 0) return std::nullopt;
      digits.push_back({run, stride});
      unit *= run;
    }
    std::reverse(digits.begin(), digits.end());
    sequence.insert(sequence.end(), digits.begin(), digits.end());
  }
  if (!fits(sequence, static_cast<int64_t>(ranks.size()))) return std::nullopt;
  const std::vector<int64_t> expected = ranks_in_order(sequence);
  if (!std::equal(expected.begin(), expected.end(), ranks.begin(), ranks.end()))
    return std::nullopt;
  return result;
}

}  // namespace gspmd
