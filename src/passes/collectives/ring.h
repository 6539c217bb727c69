#pragma once

// The devices of one collective as a ring, and what is passed round it.

#include <cstdint>
#include <utility>
#include <vector>

#include "gspmd/ir/module.h"
#include "ops/emission/index.h"

namespace gspmd {

class Ring {
 public:
  Ring(const ReplicaGroups& groups, int64_t num_devices);

  int64_t size() const { return size_; }
  // Every device is in one group, all groups of one size.
  bool regular() const;
  // The devices of each group.
  std::vector<std::vector<int64_t>> lists() const { return materialize(groups_, num_devices_); }
  // This device's place in its ring.
  IndexNode place(Computation& c) const;
  // Member k sends to member k + distance, round the end.
  Node* pass_on(Node* value, int64_t distance) const;
  // In every group the members at the places named send, each to one other: {from, to}. Who is sent
  // nothing has zeros.
  Node* send(Node* value, const std::vector<std::pair<int64_t, int64_t>>& places) const;
  // (place + distance) mod size.
  IndexNode place_after(IndexNode place, IndexNode distance) const {
    return (place + distance) % size_;
  }

 private:
  ReplicaGroups groups_;
  int64_t num_devices_;
  int64_t size_;
};

// `whole` with `part` as its block number `block` along `dim`.
Node* put_block(Node* whole, Node* part, int64_t dim, IndexNode block);

}  // namespace gspmd
