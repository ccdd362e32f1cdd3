// The DetectStream calls that are open: how many there may be, and their end when the server drains.
#pragma once

#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>

namespace reference {

// One open call, as Streams knows it. Both functions may be called by any thread, under Streams' lock.
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  // Whether a frame has been sent.
  virtual bool has_begun() const = 0;
  // Ends the call with a status as soon as no frame of it is in hand.
  virtual void end(const grpc::Status& status) = 0;
};

// Safe to use from several threads.
class Streams {
 public:
  using Id = std::uint64_t;

  explicit Streams(std::size_t max_streams) : max_streams_(max_streams) {}

  // Takes a call in, or says why not. The oldest call that never sent a frame gives its place when all are
  // taken. `id` is for leave().
  grpc::Status enter(OpenStream* stream, Id* id);
  // Frees the call's place; again it does nothing. A stream must have left before it is destroyed.
  void leave(Id id);
  // No call is taken in from now on.
  void start_draining();
  bool draining() const { return draining_; }
  // Ends all calls.
  void end_all();
  // Waits until no call is open; false when time runs out first.
  bool wait_empty(std::chrono::steady_clock::time_point deadline);

  static grpc::Status draining_status();

 private:
  bool make_room();

  const std::size_t max_streams_;
  std::mutex mutex_;
  std::condition_variable emptied_;
  std::atomic<bool> draining_{false};
  Id next_id_ = 1;
  // In the order of their beginning.
  std::map<Id, OpenStream*> open_;
};

}  // namespace reference
