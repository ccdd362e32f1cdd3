// Workers that the threads of calls borrow, one frame at a time.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "frame_worker.h"

namespace reference {

class WorkerPool {
 public:
  // Gives its worker back at its end.
  class Loan {
   public:
    Loan(WorkerPool& pool, FrameWorker* worker) : pool_(pool), worker_(worker) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { pool_.give_back(worker_); }
    FrameWorker* operator->() const { return worker_; }

   private:
    WorkerPool& pool_;
    FrameWorker* const worker_;
  };

  explicit WorkerPool(std::vector<std::unique_ptr<FrameWorker>> workers) : workers_(std::move(workers)) {
    for (const auto& worker : workers_) free_.push_back(worker.get());
  }

  const Detector& detector() const { return workers_.front()->detector(); }

  // Waits until a worker is free; the one that was used last comes first.
  Loan borrow() {
    std::unique_lock lock(mutex_);
    given_back_.wait(lock, [this] { return !free_.empty(); });
    FrameWorker* worker = free_.back();
    free_.pop_back();
    return {*this, worker};
  }

 private:
  void give_back(FrameWorker* worker) {
    const std::lock_guard lock(mutex_);
    free_.push_back(worker);
    given_back_.notify_one();
  }

  const std::vector<std::unique_ptr<FrameWorker>> workers_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<FrameWorker*> free_;
};

}  // namespace reference
