// Counts what is alive, so that its end can be waited for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace reference {

class LiveCalls {
 public:
  void arrive() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) emptied_.notify_all();
  }

  // Waits until there are none; false when time runs out first.
  bool wait_none(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    return emptied_.wait_until(lock, deadline, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable emptied_;
  int count_ = 0;
};

}  // namespace reference
