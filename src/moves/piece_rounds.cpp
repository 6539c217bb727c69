#include "moves/piece_rounds.h"

#include <algorithm>
#include <limits>
#include <map>

namespace gspmd {
namespace {

Dims joined(Dims a, const Dims& b) {
  for (size_t d = 0; d < a.size(); ++d) a[d] = std::max(a[d], b[d]);
  return a;
}

// Small numbers for devices.
class Numbers {
 public:
  size_t of(int64_t device) { return known_.try_emplace(device, known_.size()).first->second; }
  size_t size() const { return known_.size(); }

 private:
  std::map<int64_t, size_t> known_;
};

// Senders and what they send; pieces are handed on from the one that sends the most.
class Loads {
 public:
  explicit Loads(std::vector<Piece>& pieces) : pieces_(pieces) {
    for (Piece& piece : pieces_)
      for (const int64_t holder : *piece.holders) devices_.of(holder);
    load_.assign(devices_.size(), 0);
    sent_.resize(devices_.size());
  }

  int64_t run() {
    std::vector<size_t> order(pieces_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const size_t x = pieces_[a].holders->size(), y = pieces_[b].holders->size();
      return x != y ? x < y : pieces_[a].volume > pieces_[b].volume;
    });
    for (const size_t i : order) {
      const std::vector<int64_t>& holders = *pieces_[i].holders;
      size_t best = devices_.of(holders[0]);
      for (const int64_t holder : holders)
        if (load_[devices_.of(holder)] < load_[best]) best = devices_.of(holder);
      give(i, best, *std::find_if(holders.begin(), holders.end(), [&](int64_t h) {
             return devices_.of(h) == best;
           }));
    }
    // A chain may leave another sender with as much.
    for (size_t tries = 0; tries < 8 * load_.size() && relieve(); ++tries) {
    }
    return load_.empty() ? 0 : *std::max_element(load_.begin(), load_.end());
  }

 private:
  void give(size_t piece, size_t to, int64_t device) {
    pieces_[piece].source = device;
    load_[to] += pieces_[piece].volume;
    sent_[to].push_back(piece);
  }

  // Hands pieces on along a chain from the sender with the most to one with less; false where no
  // chain is found.
  bool relieve() {
    const auto most =
        static_cast<size_t>(std::max_element(load_.begin(), load_.end()) - load_.begin());
    struct Hop {
      size_t from = 0, piece = 0;
      int64_t device = -1;
    };
    std::vector<Hop> hops(load_.size());
    std::vector<bool> seen(load_.size(), false);
    std::vector<size_t> queue{most};
    seen[most] = true;
    for (size_t at = 0; at < queue.size(); ++at)
      for (const size_t i : sent_[queue[at]])
        for (const int64_t holder : *pieces_[i].holders) {
          const size_t to = devices_.of(holder);
          if (seen[to]) continue;
          seen[to] = true;
          hops[to] = {queue[at], i, holder};
          if (load_[to] + pieces_[i].volume < load_[most]) {
            for (size_t here = to; here != most; here = hops[here].from) {
              const Hop& hop = hops[here];
              std::erase(sent_[hop.from], hop.piece);
              load_[hop.from] -= pieces_[hop.piece].volume;
              give(hop.piece, here, hop.device);
            }
            return true;
          }
          queue.push_back(to);
        }
    return false;
  }

  std::vector<Piece>& pieces_;
  Numbers devices_;
  std::vector<int64_t> load_;
  std::vector<std::vector<size_t>> sent_;
};

// The pieces as edges from senders to receivers, the rounds as colours.
class Colouring {
 public:
  Colouring(std::vector<Piece> pieces, size_t most_rounds)
      : pieces_(std::move(pieces)), most_(most_rounds) {}

  std::vector<PieceRound> run() {
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
      return a.volume != b.volume ? a.volume > b.volume : a.shift < b.shift;
    });
    for (const Piece& piece : pieces_) {
      sources_.of(piece.source);
      targets_.of(piece.target);
    }
    for (size_t i = 0; i < pieces_.size(); ++i)
      if (!add(i)) return {};
    std::vector<PieceRound> rounds;
    for (Round& round : rounds_) {
      rounds.push_back({{}, std::move(round.size)});
      for (const size_t i : round.by_source)
        if (i != kNone)
          rounds.back().moves.push_back(
              {pieces_[i].source, pieces_[i].target, pieces_[i].part.start, pieces_[i].part});
    }
    return rounds;
  }

 private:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  struct Round {
    Dims size;
    std::vector<size_t> by_source, by_target;  // the piece, or kNone
  };
  size_t source(size_t i) { return sources_.of(pieces_[i].source); }
  size_t target(size_t i) { return targets_.of(pieces_[i].target); }

  void put(Round& round, size_t i) { round.by_source[source(i)] = round.by_target[target(i)] = i; }
  void take(Round& round, size_t i) {
    round.by_source[source(i)] = round.by_target[target(i)] = kNone;
  }
  int64_t growth(const Round& round, const Dims& size) const {
    return volume(joined(round.size, size)) - volume(round.size);
  }

  bool add(size_t i) {
    const Dims& size = pieces_[i].part.size;
    size_t best = kNone;
    int64_t least = pieces_[i].volume;  // of a round of its own
    for (size_t r = 0; r < rounds_.size(); ++r) {
      Round& round = rounds_[r];
      if (round.by_source[source(i)] != kNone || round.by_target[target(i)] != kNone) continue;
      const int64_t grown = growth(round, size);
      if (grown < least || (grown == least && best == kNone)) {
        best = r;
        least = grown;
      }
      if (grown == 0) break;
    }
    if ((best == kNone || least > 0) && make_room(i)) return true;
    if (best == kNone) {
      if (rounds_.size() == most_) return false;
      best = rounds_.size();
      rounds_.push_back({size, std::vector<size_t>(sources_.size(), kNone),
                         std::vector<size_t>(targets_.size(), kNone)});
    }
    rounds_[best].size = joined(rounds_[best].size, size);
    put(rounds_[best], i);
    return true;
  }

  // A round in which the sender is free and one in which the receiver is free: pieces change places
  // between both until one is free for both. No round becomes larger.
  bool make_room(size_t i) {
    const Dims& size = pieces_[i].part.size;
    for (Round& a : rounds_) {
      if (a.by_source[source(i)] != kNone || growth(a, size) > 0) continue;
      for (Round& b : rounds_) {
        if (b.by_target[target(i)] != kNone || &a == &b) continue;
        std::vector<size_t> chain;  // from the receiver on, in a, b, a, ...
        bool fits = true;
        for (size_t at = a.by_target[target(i)]; at != kNone;) {
          const bool in_a = chain.size() % 2 == 0;
          fits = fits && growth(in_a ? b : a, pieces_[at].part.size) == 0;
          chain.push_back(at);
          at = in_a ? b.by_source[source(at)] : a.by_target[target(at)];
        }
        if (!fits) continue;
        for (size_t k = 0; k < chain.size(); ++k) take(k % 2 == 0 ? a : b, chain[k]);
        for (size_t k = 0; k < chain.size(); ++k) put(k % 2 == 0 ? b : a, chain[k]);
        put(a, i);
        return true;
      }
    }
    return false;
  }

  std::vector<Piece> pieces_;
  size_t most_;
  Numbers sources_, targets_;
  std::vector<Round> rounds_;
};

}  // namespace

int64_t volume(const Dims& size) {
  int64_t count = 1;
  for (const int64_t d : size) count = saturating_multiply(count, d);
  return count;
}

int64_t elements_of(const std::vector<PieceRound>& rounds) {
  int64_t sum = 0;
  for (const PieceRound& round : rounds) sum = saturating_add(sum, volume(round.size));
  return sum;
}

int64_t assign_sources(std::vector<Piece>& pieces) { return Loads(pieces).run(); }

std::vector<PieceRound> colour_pieces(std::vector<Piece> pieces, size_t most_rounds) {
  return Colouring(std::move(pieces), most_rounds).run();
}

}  // namespace gspmd
