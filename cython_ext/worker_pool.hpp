// How an event loop hands work to threads and learns that it is done; `worker_pool.pyx` wraps it for Python.
//
// One thread, the loop's, calls everything but wait() and complete(). The threads are made elsewhere; each
// serves one worker:
//
//     while (void* task = pool.wait(worker)) { ...; pool.complete(worker, task); }
//
// A task is a pointer that is only passed on, never null. A worker has at most one: it is free again once the
// loop has collected its completion. So nothing waits in here, and after construction nothing is allocated.

#pragma once

#include <semaphore.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <vector>

namespace camera_ai {

class WorkerPool {
public:
    struct Completion {
        int worker;
        void* task;
    };

    // All workers are free at first. Throws std::system_error when the system gives no eventfd.
    explicit WorkerPool(int workers) : workers_(workers) {
        free_.reserve(workers_.size());
        for (int worker = workers - 1; worker >= 0; --worker) free_.push_back(worker);
        event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (event_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    }

    // No thread may be in wait() or complete() any more.
    ~WorkerPool() { close(event_fd_); }

    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    // Gives the task to next_worker() and wakes that thread alone; false when there is no worker for it.
    bool submit(void* task) noexcept {
        const int worker = next_worker();
        if (worker < 0) return false;
        free_.pop_back();
        workers_[worker].task = task;
        sem_post(&workers_[worker].woken);
        return true;
    }

    // Who gets the next task: the worker that was freed last, for its caches are warm; -1 when there is none.
    int next_worker() const noexcept { return stopped_ || free_.empty() ? -1 : free_.back(); }

    int workers() const noexcept { return static_cast<int>(workers_.size()); }

    int free_workers() const noexcept { return static_cast<int>(free_.size()); }

    // Blocks until the worker has a task; null once the pool has stopped, from then on at once.
    void* wait(int worker) noexcept {
        Worker& own = workers_[worker];
        while (sem_wait(&own.woken) != 0) {
        }
        void* task = own.task;
        own.task = nullptr;
        if (task == nullptr) sem_post(&own.woken);
        return task;
    }

    // Tells the loop; only the first completion that it has not collected yet writes to the eventfd.
    void complete(int worker, void* task) noexcept {
        workers_[worker].completed = task;
        int last = last_completed_.load(std::memory_order_relaxed);
        do {
            workers_[worker].completed_before = last;
        } while (!last_completed_.compare_exchange_weak(last, worker, std::memory_order_release,
                                                        std::memory_order_relaxed));
        if (last != NONE) return;
        const std::uint64_t one = 1;
        // It cannot fail: the counter never comes near its limit, for each collect() sets it to zero.
        [[maybe_unused]] const ssize_t written = write(event_fd_, &one, sizeof one);
    }

    // Puts what has been completed since the last call in place of `completions`, in that order, and frees
    // those workers. Allocates nothing when there is room for one completion of each worker.
    void collect(std::vector<Completion>& completions) {
        completions.clear();
        std::uint64_t count;
        // Before the list is taken: whatever is completed after that finds it empty, and writes again.
        [[maybe_unused]] const ssize_t drained = read(event_fd_, &count, sizeof count);
        int worker = last_completed_.exchange(NONE, std::memory_order_acquire);
        for (; worker != NONE; worker = workers_[worker].completed_before)
            completions.push_back({worker, workers_[worker].completed});
        std::reverse(completions.begin(), completions.end());
        for (const Completion& completion : completions) free_.push_back(completion.worker);
    }

    // Readable while there is something to collect; now and then also when there no longer is.
    int fd() const noexcept { return event_fd_; }

    // From now on no task is taken; each thread does the one that its worker has, and wait() then ends it.
    void stop() noexcept {
        if (stopped_) return;
        stopped_ = true;
        for (Worker& worker : workers_) sem_post(&worker.woken);
    }

private:
    static constexpr int NONE = -1;

    // A cache line each, or workers would slow each other down.
    struct alignas(64) Worker {
        Worker() noexcept { sem_init(&woken, 0, 0); }
        ~Worker() { sem_destroy(&woken); }

        sem_t woken;
        void* task = nullptr;
        void* completed = nullptr;
        int completed_before = NONE;
    };

    std::vector<Worker> workers_;
    std::vector<int> free_;
    // The list's head. Workers push and the loop takes it as a whole, so no node is ever looked at too late.
    alignas(64) std::atomic<int> last_completed_{NONE};
    int event_fd_ = -1;
    bool stopped_ = false;
};

}  // namespace camera_ai
