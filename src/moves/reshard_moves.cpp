// The steps that lead on from a layout.

#include <algorithm>

#include "moves/exchange_choice.h"
#include "moves/price.h"
#include "moves/reshard_search.h"

namespace gspmd {
namespace {

bool contains(const Atoms& list, int atom) {
  return std::find(list.begin(), list.end(), atom) != list.end();
}

Atoms suffix(const Atoms& list, size_t count) {
  return {list.end() - static_cast<int64_t>(count), list.end()};
}

void append(Atoms& list, const Atoms& more) { list.insert(list.end(), more.begin(), more.end()); }

}  // namespace

int64_t ReshardSearch::tiles(const Atoms& atoms, int ordered) const {
  int64_t count = 1;
  for (const int atom : atoms) count *= p_.atoms[ordered][static_cast<size_t>(atom)].size;
  return count;
}

int64_t ReshardSearch::local_bytes(const AtomLayout& s) const {
  int64_t bytes = dtype_size(p_.global.dtype);
  for (size_t d = 0; d < s.dims.size(); ++d)
    bytes = saturating_multiply(bytes, ceil_div(p_.global.dims[d], tiles(s.dims[d], s.ordered)));
  return bytes;
}

bool ReshardSearch::nests(int64_t d, int64_t coarse, int64_t fine) const {
  const int64_t n = p_.global.dims[static_cast<size_t>(d)];
  return coarse == 1 || ceil_div(n, coarse) == fine / coarse * ceil_div(n, fine);
}

int64_t ReshardSearch::realign_bytes(const AtomLayout& s, size_t d, const Atoms& from,
                                     const Atoms& to) const {
  const int64_t n = p_.global.dims[d], count = tiles(s.dims[d], s.ordered);
  const int64_t a = tiles(from, s.ordered), b = tiles(to, s.ordered), few = std::min(a, b);
  const int64_t have = a / few * ceil_div(n, a), want = b / few * ceil_div(n, b);
  if (few == 1 || have == want || count == 1) return 0;
  const auto [known, fresh] =
      realigned_.try_emplace({static_cast<int64_t>(d), count, have, want}, INT64_MAX);
  const HeldDim held{n, count, have};
  const Access access{want, 0, 1, want};
  if (fresh && is_addressable(held, access)) known->second = choose_exchange(held, access).received;
  int64_t bytes = saturating_multiply(known->second, dtype_size(p_.global.dtype));
  for (size_t e = 0; e < s.dims.size(); ++e)
    if (e != d)
      bytes = saturating_multiply(bytes, ceil_div(p_.global.dims[e], tiles(s.dims[e], s.ordered)));
  return bytes;
}

bool ReshardSearch::wanted_on(int64_t d, int atom) const {
  return contains(p_.to.dims[static_cast<size_t>(d)], atom);
}

bool ReshardSearch::is_whole(const AtomLayout& s) const {
  return s.unreduced.empty() &&
         std::all_of(s.dims.begin(), s.dims.end(), [](const auto& dim) { return dim.empty(); });
}

bool ReshardSearch::is_free(const AtomLayout& s, int atom) const {
  for (const auto& dim : s.dims)
    if (contains(dim, atom)) return false;
  return !contains(s.unreduced, atom);
}

// Of the last `count` atoms of dim d.
ReshardSearch::Move ReshardSearch::gather(const AtomLayout& s, size_t d, size_t count) const {
  Move m{ReshardKind::all_gather, static_cast<int64_t>(d), -1, suffix(s.dims[d], count), s, 0};
  m.after.dims[d].resize(s.dims[d].size() - count);
  const int64_t group = tiles(m.atoms, s.ordered), have = local_bytes(s);
  if (p_.global.dims[d] == 1 && group > 2) {  // the first tile has all: it goes out from there
    m.kind = ReshardKind::collective_broadcast;
    m.bytes = sent_bytes(m.kind, have, have, group);
    return m;
  }
  const int64_t realign = realign_bytes(m.after, d, s.dims[d], m.after.dims[d]);
  m.realigned = realign > 0;
  const int64_t padded = saturating_multiply(have, group);
  m.bytes = saturating_add(realign, sent_bytes(m.kind, have, padded, group));
  return m;
}

void ReshardSearch::gathers(const AtomLayout& s, std::vector<Move>& out) const {
  for (size_t d = 0; d < s.dims.size(); ++d)
    for (size_t k = 1; k <= s.dims[d].size(); ++k)
      if (Move m = gather(s, d, k); m.bytes != INT64_MAX) out.push_back(std::move(m));
}

// Of whole shards.
ReshardSearch::Move ReshardSearch::permute(const AtomLayout& s, AtomLayout after) const {
  const int64_t bytes = local_bytes(s);
  const auto kind = ReshardKind::collective_permute;
  return {kind, -1, -1, {}, std::move(after), sent_bytes(kind, bytes, bytes, 1)};
}

void ReshardSearch::exchanges(const AtomLayout& s, bool wanted_only, std::vector<Move>& out) const {
  for (size_t d = 0; d < s.dims.size(); ++d)
    for (size_t k = 1; k <= s.dims[d].size(); ++k) {
      const Atoms moved = suffix(s.dims[d], k);
      for (size_t e = 0; e < s.dims.size(); ++e) {
        const bool useful = !wanted_only || std::all_of(moved.begin(), moved.end(), [&](int a) {
          return wanted_on(static_cast<int64_t>(e), a);
        });
        if (e == d || !useful) continue;
        Move m{
            ReshardKind::all_to_all, static_cast<int64_t>(d), static_cast<int64_t>(e), moved, s, 0};
        m.after.dims[d].resize(s.dims[d].size() - k);
        append(m.after.dims[e], moved);
        AtomLayout pieces = s;  // dim e is padded to whole pieces before it is cut
        append(pieces.dims[e], moved);
        const int64_t realign =
            saturating_add(realign_bytes(s, e, s.dims[e], m.after.dims[e]),
                           realign_bytes(m.after, d, s.dims[d], m.after.dims[d]));
        m.realigned = realign > 0;
        const int64_t group = tiles(moved, s.ordered);
        const int64_t padded = saturating_multiply(local_bytes(pieces), group);
        m.bytes = saturating_add(realign, sent_bytes(m.kind, padded, padded, group));
        if (m.bytes == INT64_MAX) continue;
        out.push_back(std::move(m));
      }
    }
}

void ReshardSearch::add_joint(const AtomLayout& s, const AtomLayout& after,
                              const std::vector<MovedAtoms>& runs, std::vector<Move>& out) const {
  AtomLayout pieces = s;
  int64_t members = 1;
  for (const MovedAtoms& run : runs) {
    append(pieces.dims[static_cast<size_t>(run.dim_to)], run.atoms);
    members *= tiles(run.atoms, s.ordered);
  }
  for (size_t d = 0; d < s.dims.size(); ++d)
    if (realign_bytes(s, d, s.dims[d], pieces.dims[d]) != 0 ||
        realign_bytes(s, d, pieces.dims[d], after.dims[d]) != 0)
      return;
  Move m{ReshardKind::all_to_all, runs[0].dim, runs[0].dim_to, runs[0].atoms, after, 0};
  const int64_t padded = saturating_multiply(local_bytes(pieces), members);
  m.bytes = sent_bytes(m.kind, padded, padded, members);
  m.also.assign(runs.begin() + 1, runs.end());
  out.push_back(std::move(m));
}

void ReshardSearch::joint_exchanges(const AtomLayout& s, bool wanted_only, AtomLayout& after,
                                    std::vector<MovedAtoms>& runs, std::vector<Move>& out) const {
  constexpr size_t kMostRuns = 3;
  if (runs.size() > 1) add_joint(s, after, runs, out);
  if (runs.size() == kMostRuns) return;
  const auto is_dim = [&](int64_t MovedAtoms::*which, size_t d) {
    return std::any_of(runs.begin(), runs.end(), [&](const MovedAtoms& run) {
      return run.*which == static_cast<int64_t>(d);
    });
  };
  for (size_t d = 0; d < s.dims.size(); ++d) {
    if (is_dim(&MovedAtoms::dim_to, d)) continue;
    for (size_t k = 1; k <= after.dims[d].size(); ++k) {
      const Atoms moved = suffix(after.dims[d], k);
      for (size_t e = 0; e < s.dims.size(); ++e) {
        if (e == d || is_dim(&MovedAtoms::dim, e)) continue;
        const bool useful = !wanted_only || std::all_of(moved.begin(), moved.end(), [&](int a) {
          return wanted_on(static_cast<int64_t>(e), a);
        });
        if (!useful) continue;
        const AtomLayout before = after;
        after.dims[d].resize(after.dims[d].size() - k);
        append(after.dims[e], moved);
        runs.push_back({static_cast<int64_t>(d), static_cast<int64_t>(e), moved});
        joint_exchanges(s, wanted_only, after, runs, out);
        runs.pop_back();
        after = before;
      }
    }
  }
}

void ReshardSearch::add_slice(const AtomLayout& s, const Move& run, std::vector<Move>& out) const {
  const auto d = static_cast<size_t>(run.dim);
  const int64_t bytes = realign_bytes(s, d, s.dims[d], run.after.dims[d]);
  if (bytes == INT64_MAX || (bytes > 0 && !s.unreduced.empty())) return;
  out.push_back(run);
  out.back().bytes = bytes;
  out.back().realigned = bytes > 0;
}

void ReshardSearch::wanted_slices(const AtomLayout& s, std::vector<Move>& out) const {
  for (size_t d = 0; d < s.dims.size(); ++d) {
    Move m{ReshardKind::dynamic_slice, static_cast<int64_t>(d), -1, {}, s, 0};
    for (const int atom : p_.to.dims[d]) {
      if (!is_free(m.after, atom)) continue;
      m.atoms.push_back(atom);
      m.after.dims[d].push_back(atom);
      add_slice(s, m, out);
    }
  }
}

void ReshardSearch::slices(const AtomLayout& s, Move& run, std::vector<Move>& out) const {
  const auto d = static_cast<size_t>(run.dim);
  for (int atom = 0; atom < static_cast<int>(atoms_of(s).size()); ++atom) {
    if (!is_free(run.after, atom)) continue;
    run.atoms.push_back(atom);
    run.after.dims[d].push_back(atom);
    add_slice(s, run, out);
    slices(s, run, out);
    run.atoms.pop_back();
    run.after.dims[d].pop_back();
  }
}

void ReshardSearch::wanted_permutes(const AtomLayout& s, std::vector<Move>& out) const {
  const auto add = [&](AtomLayout after) {
    if (after != s) out.push_back(permute(s, std::move(after)));
  };
  if (!s.unreduced.empty()) return;
  bool same_tiles = true;
  for (size_t d = 0; d < s.dims.size(); ++d)
    same_tiles = same_tiles && tiles(s.dims[d], 0) == tiles(p_.to.dims[d], 0);
  if (same_tiles && p_.to.unreduced.empty()) add(p_.to);
  for (size_t d = 0; d < s.dims.size(); ++d) {
    // What the target wants here first, in its order, so that the rest can be gathered or moved on.
    AtomLayout ordered = s;
    ordered.dims[d].clear();
    for (const int atom : p_.to.dims[d])
      if (contains(s.dims[d], atom)) ordered.dims[d].push_back(atom);
    for (const int atom : s.dims[d])
      if (!wanted_on(static_cast<int64_t>(d), atom)) ordered.dims[d].push_back(atom);
    add(std::move(ordered));
    // A free atom of the same size in place of one that the target does not want here.
    for (size_t i = 0; i < s.dims[d].size(); ++i)
      for (const int atom : p_.to.dims[d]) {
        const int have = s.dims[d][i];
        if (wanted_on(static_cast<int64_t>(d), have) || !is_free(s, atom)) continue;
        if (tiles({have}, 0) != tiles({atom}, 0)) continue;
        AtomLayout swapped = s;
        swapped.dims[d][i] = atom;
        add(std::move(swapped));
      }
  }
}

// Every layout with the same number of tiles in each dim; `after` is filled dim by dim.
void ReshardSearch::permutes(const AtomLayout& s, AtomLayout& after, size_t dim,
                             std::vector<Move>& out) const {
  if (dim == s.dims.size()) {
    if (after.ordered != s.ordered) {
      if (auto move = crossing(s, after)) out.push_back(std::move(*move));
    } else if (after != s) {
      out.push_back(permute(s, after));
    }
    return;
  }
  const int64_t wanted = tiles(s.dims[dim], s.ordered);
  const int64_t have = tiles(after.dims[dim], after.ordered);
  if (have == wanted) {
    permutes(s, after, dim + 1, out);
    return;
  }
  for (int atom = 0; atom < static_cast<int>(atoms_of(after).size()); ++atom) {
    if (!is_free(after, atom) || wanted % (have * tiles({atom}, after.ordered)) != 0) continue;
    after.dims[dim].push_back(atom);
    permutes(s, after, dim, out);
    after.dims[dim].pop_back();
  }
}

void ReshardSearch::reductions(const AtomLayout& s, std::vector<Move>& out) const {
  Atoms pending;
  for (const int atom : s.unreduced)
    if (!contains(p_.to.unreduced, atom)) pending.push_back(atom);
  if (pending.empty()) return;
  const auto without = [&](const Atoms& done) {
    AtomLayout after = s;
    erase_if(after.unreduced, [&](int a) { return contains(done, a); });
    return after;
  };
  Atoms unwanted;
  for (const int atom : pending) {
    bool wanted = false;
    for (size_t d = 0; d < p_.to.dims.size() && !p_.two_orders(); ++d)
      wanted = wanted || wanted_on(int64_t(d), atom);
    if (!wanted) unwanted.push_back(atom);
  }
  const auto add_all_reduce = [&](const Atoms& group) {
    const int64_t g = tiles(group, s.ordered);
    const int64_t bytes = local_bytes(s);
    out.push_back({ReshardKind::all_reduce, -1, -1, group, without(group),
                   sent_bytes(ReshardKind::all_reduce, bytes, bytes, g)});
  };
  add_all_reduce(pending);
  if (!unwanted.empty() && unwanted != pending) add_all_reduce(unwanted);
  for (size_t d = 0; d < s.dims.size(); ++d) {
    Atoms run;
    AtomLayout after = s;
    // In another order any dim will do: what is wanted there counts in its atoms.
    for (const int atom : p_.two_orders() ? pending : p_.to.dims[d]) {
      if (contains(after.dims[d], atom)) continue;
      if (!contains(pending, atom)) break;
      run.push_back(atom);
      after = without(run);
      append(after.dims[d], run);
      if (!nests(static_cast<int64_t>(d), tiles(s.dims[d], s.ordered),
                 tiles(after.dims[d], s.ordered)))
        continue;
      const int64_t g = tiles(run, s.ordered), left = local_bytes(after);
      out.push_back(
          {ReshardKind::reduce_scatter, static_cast<int64_t>(d), -1, run, after,
           sent_bytes(ReshardKind::reduce_scatter, saturating_multiply(left, g), left, g)});
    }
  }
}

void ReshardSearch::joint_exchanges(const AtomLayout& s, bool wanted_only,
                                    std::vector<Move>& out) const {
  AtomLayout after = s;
  std::vector<MovedAtoms> runs;
  joint_exchanges(s, wanted_only, after, runs, out);
}

void ReshardSearch::likely_moves(const AtomLayout& s, bool, std::vector<Move>& out) const {
  reductions(s, out);
  wanted_slices(s, out);
  exchanges(s, true, out);
  joint_exchanges(s, true, out);
  wanted_permutes(s, out);
  gathers(s, out);
}

void ReshardSearch::all_moves(const AtomLayout& s, bool permuted, std::vector<Move>& out) const {
  const bool groups = p_.has_groups(s.ordered);
  if (groups) reductions(s, out);
  for (size_t d = 0; d < s.dims.size(); ++d) {
    Move run{ReshardKind::dynamic_slice, static_cast<int64_t>(d), -1, {}, s, 0};
    slices(s, run, out);
  }
  if (groups) exchanges(s, false, out);
  constexpr size_t kFewAtoms = 4;
  const bool few_atoms = atoms_of(s).size() <= kFewAtoms;
  if (groups && (few_atoms || !p_.two_orders())) joint_exchanges(s, !few_atoms, out);
  const bool reduced = s.unreduced.empty() && p_.to.unreduced.empty();
  if (reduced && !permuted && !p_.two_orders() && !is_whole(s)) {
    AtomLayout after{std::vector<Atoms>(s.dims.size()), {}, s.ordered};
    permutes(s, after, 0, out);
  }
  if (reduced && p_.two_orders() && s.ordered == 0) crossings(s, out);
  if (reduced && p_.needs_pieces()) piecewise(s, out);
  if (reduced && p_.has_empty) cuts(s, out);
  if (groups) gathers(s, out);
}

}  // namespace gspmd
