#pragma once

#include <cstdint>
#include <vector>

#include "gspmd/gspmd.h"

namespace gspmd::models {

// The elements, of f32 or f64, times a factor, which is not rounded before; in their place.
Array scaled(Array values, double factor);

// The part of a host: of every global batch, hosts read as many rows each, one after the other.
struct HostPart {
  int64_t hosts = 1;
  int64_t host = 0;
};

// Which examples are read at which step: epoch after epoch every example once, in an order of each
// epoch's own that follows from the seed alone. A batch may end one epoch and begin the next.
class EpochOrder {
 public:
  // `batch`: rows of all hosts. UserError: fewer than one example or row, a host that there is not,
  // hosts that do not divide the batch.
  EpochOrder(int64_t examples, int64_t batch, uint32_t seed, HostPart part = {});

  // The examples of this host's rows at step 0, 1, ..., batch / hosts of them. A pure function of
  // the step: a resumed run reads on where it stopped.
  std::vector<int64_t> rows(int64_t step) const;

 private:
  int64_t example(int64_t position) const;

  int64_t examples_, batch_;
  uint32_t seed_;
  HostPart part_;
  mutable int64_t epoch_ = -1;  // whose order `order_` is
  mutable std::vector<int64_t> order_;
};

// 0, ..., n - 1 in an order that follows from the seed and the stream.
std::vector<int64_t> random_order(int64_t n, uint32_t seed, int64_t stream);

// Batches of examples of like lengths, so that little is padded: an epoch of one bucket's batch
// after another's. Every host makes the same plan and reads its part of each batch.
class LengthBuckets {
 public:
  struct Batch {
    int64_t length = 0;         // what the rows are padded to: the bucket's bound
    std::vector<int64_t> rows;  // examples of this host; -1: a row of padding alone
  };

  // `bounds`: the lengths of the buckets, each above the one before; an example goes into the first
  // that it fits. UserError: bounds that do not rise, an example longer than the last, and as
  // EpochOrder.
  LengthBuckets(std::vector<int64_t> lengths, std::vector<int64_t> bounds, int64_t batch,
                uint32_t seed, HostPart part = {});

  // The batches of an epoch: every example once over all hosts, as many batches on each.
  std::vector<Batch> epoch(int64_t number) const;

 private:
  std::vector<int64_t> lengths_, bounds_;
  int64_t batch_;
  uint32_t seed_;
  HostPart part_;
};

}  // namespace gspmd::models
