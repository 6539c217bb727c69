#include "stablehlo/text/op_stream.h"

#include <system_error>

namespace gspmd::stablehlo {
namespace {

constexpr size_t kLong = size_t{1} << 18;  // characters that are worth a thread
constexpr size_t kBatch = 128;             // ops

}  // namespace

OpStream::OpStream(const Syntax& syntax, const UnreadBody& body)
    : syntax_(syntax.cursor.from(body.begin), syntax), reader_(syntax_) {
  if (body.end - body.begin < kLong) return;
  try {
    thread_ = std::thread([this] { read_ahead(); });
  } catch (const std::system_error&) {
    // The system has no thread left: each op is read when it is asked for.
  }
}

OpStream::~OpStream() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void OpStream::fill(Batch& batch, size_t most) {
  const ArenaScope scope(batch.arena);
  batch.ops = Ops();
  batch.arena.clear();
  batch.count = 0;
  try {
    while (batch.count < most && !batch.is_last) {
      batch.is_last = syntax_.cursor.sees("}");
      if (batch.is_last) break;
      reader_.read_op(batch.ops.add());
      ++batch.count;
    }
  } catch (...) {
    batch.error = std::current_exception();
  }
}

void OpStream::read_ahead() {
  for (bool ends = false; !ends;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stops_ || filled_ - returned_ < batches_.size(); });
    if (stops_) return;
    Batch& batch = batches_[filled_ % batches_.size()];
    lock.unlock();
    fill(batch, kBatch);
    ends = batch.is_last || batch.error;
    lock.lock();
    ++filled_;
    changed_.notify_all();
  }
}

OpStream::Batch* OpStream::take() {
  if (!thread_.joinable()) {
    fill(batches_[0], 1);
    return &batches_[0];
  }
  std::unique_lock lock(mutex_);
  returned_ = taken_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return filled_ > taken_; });
  return &batches_[taken_++ % batches_.size()];
}

const Op* OpStream::next() {
  while (now_ == nullptr || at_ == now_->count) {
    if (now_ != nullptr && now_->error) std::rethrow_exception(now_->error);
    if (now_ != nullptr && now_->is_last) return nullptr;
    now_ = take();
    at_ = 0;
  }
  return &now_->ops[at_++];
}

}  // namespace gspmd::stablehlo
