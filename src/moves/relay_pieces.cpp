#include "moves/relay_pieces.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

namespace gspmd {
namespace {

using Devices = uint64_t;  // a set

template <class Visit>
void each_of(Devices devices, Visit visit) {
  for (; devices != 0; devices &= devices - 1)
    visit(static_cast<size_t>(std::countr_zero(devices)));
}

// A part of a shard that the same devices lack.
struct Unit {
  const Box* part = nullptr;
  int64_t volume = 0;
  Devices original = 0, has = 0, lack = 0;
};

// Rounds by the numbers of devices.
struct Tried {
  struct Move {
    int from = 0, to = 0;
    const Box* part = nullptr;
    bool relayed = false;
  };
  struct Round {
    const Dims* size = nullptr;
    std::vector<Move> moves;
  };
  std::vector<Round> rounds;
  int64_t elements = 0;
};

class Relay {
 public:
  // With `assigned`, only the senders that have been chosen have what they send.
  Relay(const std::vector<Piece>& pieces, bool assigned) {
    std::map<int64_t, int> numbers;
    const auto number = [&](int64_t device) {
      const auto [at, fresh] = numbers.try_emplace(device, static_cast<int>(numbers.size()));
      if (fresh) devices_.push_back(device);
      return at->second;
    };
    std::map<Dims, size_t> known;
    for (const Piece& piece : pieces) {
      const auto [at, fresh] = known.try_emplace(piece.part.start, units_.size());
      if (fresh) {
        units_.push_back({&piece.part, piece.volume, 0, 0, 0});
        for (const int64_t holder : *piece.holders) {
          const int n = number(holder);
          if (n < kMost) units_.back().original |= Devices{1} << n;
        }
        if (!assigned) units_.back().has = units_.back().original;
      }
      if (const int n = number(piece.source); n < kMost) units_[at->second].has |= Devices{1} << n;
      const int n = number(piece.target);
      if (n < kMost) units_[at->second].lack |= Devices{1} << n;
    }
    std::stable_sort(units_.begin(), units_.end(),
                     [](const Unit& a, const Unit& b) { return a.volume > b.volume; });
  }

  bool is_small() const { return devices_.size() <= kMost; }

  // One try; `seed` breaks ties.
  std::optional<Tried> run(uint64_t seed, size_t most_rounds, int64_t below) const {
    std::vector<Unit> units = units_;
    Tried tried;
    while (true) {
      const auto first =
          std::find_if(units.begin(), units.end(), [](const Unit& unit) { return unit.lack != 0; });
      if (first == units.end()) return tried;
      tried.elements = saturating_add(tried.elements, first->volume);
      if (tried.rounds.size() == most_rounds || tried.elements >= below) return std::nullopt;
      tried.rounds.push_back(next_round(units, first->part->size, seed));
    }
  }

  std::vector<PieceRound> rounds_of(const Tried& tried) const {
    std::vector<PieceRound> rounds;
    for (const Tried::Round& round : tried.rounds) {
      rounds.push_back({{}, *round.size});
      for (const Tried::Move& move : round.moves)
        rounds.back().moves.push_back({devices_[static_cast<size_t>(move.from)],
                                       devices_[static_cast<size_t>(move.to)], move.part->start,
                                       *move.part, move.relayed});
    }
    return rounds;
  }

 private:
  static constexpr int kMost = 64;

  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
    return x ^ (x >> 29);
  }

  // Of what `from` has and `to` lacks, the largest part that fits, and of these the rarest.
  static const Unit* best_unit(const std::vector<const Unit*>& fitting, Devices from, Devices to) {
    const Unit* best = nullptr;
    for (const Unit* unit : fitting) {
      if (!(unit->has & from) || !(unit->lack & to)) continue;
      if (best && unit->volume < best->volume) break;
      if (!best || std::popcount(unit->has) < std::popcount(best->has)) best = unit;
    }
    return best;
  }

  // Receivers find senders by augmenting paths, those that lack the most first.
  struct Matching {
    std::vector<int> senders;      // in the order in which they are asked
    std::vector<Devices> helpers;  // by receiver: who has something that fits and that it lacks
    std::vector<int> receiver_of;  // by sender, or -1
    Devices seen = 0;
    bool find(int to) {
      const Devices able = helpers[static_cast<size_t>(to)];
      for (const int from : senders) {
        if ((able & ~seen) == 0) return false;
        if (((able & ~seen) >> from & 1u) == 0) continue;
        seen |= Devices{1} << from;
        int& held = receiver_of[static_cast<size_t>(from)];
        if (held >= 0 && !find(held)) continue;
        held = to;
        return true;
      }
      return false;
    }
  };

  Tried::Round next_round(std::vector<Unit>& units, const Dims& size, uint64_t seed) const {
    const size_t count = devices_.size();
    std::vector<const Unit*> fitting;
    std::vector<int64_t> lacking(count, 0), rare(count, 0);
    Matching matching{{}, std::vector<Devices>(count, 0), std::vector<int>(count, -1)};
    for (const Unit& unit : units) {
      if (unit.lack == 0) continue;
      bool fits = true;
      for (size_t d = 0; d < size.size(); ++d) fits = fits && unit.part->size[d] <= size[d];
      if (fits) fitting.push_back(&unit);
      each_of(unit.lack, [&](size_t n) {
        lacking[n] += unit.volume;
        if (fits) matching.helpers[n] |= unit.has;
      });
      // What a sender alone has to bring to many is urgent.
      const int64_t urgent =
          unit.volume * std::popcount(unit.lack) / std::max(1, std::popcount(unit.has));
      each_of(unit.has, [&](size_t n) { rare[n] += urgent; });
    }
    const auto ordered = [&](const std::vector<int64_t>& weight, uint64_t salt) {
      std::vector<std::tuple<int64_t, uint64_t, int>> keys;
      for (size_t n = 0; n < count; ++n)
        keys.emplace_back(-weight[n], mix(seed + salt + n), static_cast<int>(n));
      std::sort(keys.begin(), keys.end());
      std::vector<int> list;
      for (const auto& [most, tie, n] : keys) list.push_back(n);
      return list;
    };
    matching.senders = ordered(rare, 1000);
    for (const int to : ordered(lacking, 2000)) {
      if (lacking[static_cast<size_t>(to)] == 0) continue;
      matching.seen = 0;
      matching.find(to);
    }
    return send(units, fitting, matching.receiver_of, size);
  }

  Tried::Round send(std::vector<Unit>& units, const std::vector<const Unit*>& fitting,
                    const std::vector<int>& receiver_of, const Dims& size) const {
    Tried::Round round{&size, {}};
    std::vector<std::pair<size_t, Devices>> arrived;  // after the round
    for (size_t from = 0; from < receiver_of.size(); ++from) {
      if (receiver_of[from] < 0) continue;
      const auto to = static_cast<size_t>(receiver_of[from]);
      const Devices source = Devices{1} << from, target = Devices{1} << to;
      const Unit* unit = best_unit(fitting, source, target);
      round.moves.push_back(
          {static_cast<int>(from), receiver_of[from], unit->part, (unit->original & source) == 0});
      arrived.emplace_back(static_cast<size_t>(unit - units.data()), target);
    }
    for (const auto& [unit, target] : arrived) {
      units[unit].lack &= ~target;
      units[unit].has |= target;
    }
    return round;
  }

  std::vector<int64_t> devices_;  // by number
  std::vector<Unit> units_;       // the largest first
};

}  // namespace

std::vector<PieceRound> relay_pieces(const std::vector<Piece>& pieces, size_t most_rounds,
                                     int64_t least, int64_t below) {
  constexpr uint64_t kTries = 8;
  const Relay of_all(pieces, false), of_assigned(pieces, true);
  if (!of_all.is_small()) return {};
  std::vector<PieceRound> best;
  int64_t elements = below;
  for (uint64_t seed = 0; seed < kTries && elements > least; ++seed) {
    const Relay& relay = seed % 2 == 0 ? of_all : of_assigned;
    const std::optional<Tried> tried = relay.run(seed * 77 + 1, most_rounds, elements);
    if (!tried) continue;
    elements = tried->elements;
    best = relay.rounds_of(*tried);
  }
  return best;
}

}  // namespace gspmd
