// Where all workers meet once.
#pragma once

#include <condition_variable>
#include <mutex>

namespace reference {

class Meeting {
 public:
  explicit Meeting(int expected) : missing_(expected) {}

  // Waits until all have come; true for the last one, who waits for nobody.
  bool come() {
    std::unique_lock lock(mutex_);
    if (--missing_ == 0) {
      complete_.notify_all();
      return true;
    }
    complete_.wait(lock, [this] { return missing_ == 0; });
    return false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable complete_;
  int missing_;
};

}  // namespace reference
