// WorkerPool under stress, for ThreadSanitizer: a loop and its threads, stopped at any moment, again and again.
//
//     pool_stress TASKS STARTS SEED
//
// Does TASKS tasks in pools of all sizes, then starts and stops STARTS pools that hardly get to work. Ends with 1
// and a message at the first rule that is broken. What the loop and the threads share besides the pool are plain
// integers, so that each hand-over is also one that ThreadSanitizer checks.

#ifdef WEAKENED
// The pool as it must not be: without the order that makes a completed task's writes seen. Has to be reported.
#include <atomic>
#define memory_order_release memory_order_relaxed
#define memory_order_acquire memory_order_relaxed
#endif
#include "worker_pool.hpp"

#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr int LOST_AFTER_MS = 60'000;

void require(bool holds, const char* rule) {
    if (holds) return;
    std::fprintf(stderr, "broken: %s\n", rule);
    std::exit(1);
}

struct Task {
    unsigned work = 0;
    int times_done = 0;
    int times_collected = 0;
    int done_by = -1;
};

bool is_readable(const camera_ai::WorkerPool& pool, int timeout_ms) {
    pollfd wanted{pool.fd(), POLLIN, 0};
    return poll(&wanted, 1, timeout_ms) == 1;
}

// One pool from its start to its end; the constructor's thread is the loop.
class Round {
public:
    Round(int workers, int tasks, std::mt19937& random) : pool_(workers), tasks_(tasks), random_(random) {
        for (Task& task : tasks_) task.work = pick(0, 3) ? 0 : pick(1, 400);
        completions_.reserve(workers);
    }

    // Returns how many tasks were submitted; all are, unless the pool is stopped before.
    int run() {
        const int stop_at = pick(0, 2) ? static_cast<int>(tasks_.size()) : pick(0, tasks_.size());
        const bool early = pick(0, 1);
        if (early) start();
        submit(stop_at);
        if (!early) start();
        while (submitted_ < stop_at) {
            require(is_readable(pool_, LOST_AFTER_MS), "the loop is told of every completion");
            collect();
            submit(stop_at);
        }
        stop();
        return submitted_;
    }

private:
    int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

    void start() {
        for (int worker = 0; worker < pool_.workers(); ++worker)
            threads_.emplace_back([this, worker] { serve(worker); });
    }

    void serve(int worker) {
        while (void* taken = pool_.wait(worker)) {
            Task& task = *static_cast<Task*>(taken);
            for (volatile unsigned i = 0; i < task.work;) i = i + 1;
            task.times_done += 1;
            task.done_by = worker;
            pool_.complete(worker, taken);
        }
    }

    void submit(int until) {
        int most = pick(1, pool_.workers());
        while (submitted_ < until && most-- > 0) {
            const int free = pool_.free_workers();
            if (!pool_.submit(&tasks_[submitted_])) {
                require(free == 0, "a task is refused only when no worker is free");
                break;
            }
            require(pool_.free_workers() == free - 1, "a task takes one worker");
            submitted_ += 1;
        }
    }

    void collect() {
        const int free = pool_.free_workers();
        pool_.collect(completions_);
        require(pool_.free_workers() == free + static_cast<int>(completions_.size()),
                "collecting frees a worker for each completion");
        for (const auto& [worker, task] : completions_) {
            Task& done = *static_cast<Task*>(task);
            require(done.done_by == worker, "a completion names the worker that did the task");
            done.times_collected += 1;
        }
    }

    void stop() {
        pool_.stop();
        Task refused;
        require(!pool_.submit(&refused), "a stopped pool takes no task");
        for (std::thread& thread : threads_) thread.join();
        collect();
        require(!is_readable(pool_, 0), "after the last collection nothing is left to read");
        require(pool_.free_workers() == pool_.workers(), "at the end all workers are free");
        require(pool_.wait(0) == nullptr, "a stopped pool has nothing to wait for");
        for (int i = 0; i < static_cast<int>(tasks_.size()); ++i) {
            const int times = i < submitted_ ? 1 : 0;
            require(tasks_[i].times_done == times, "a submitted task is done once, another never");
            require(tasks_[i].times_collected == times, "a submitted task is collected once, another never");
        }
        require(refused.times_done == 0, "a refused task is not done");
    }

    camera_ai::WorkerPool pool_;
    std::vector<Task> tasks_;
    std::vector<std::thread> threads_;
    std::vector<camera_ai::WorkerPool::Completion> completions_;
    std::mt19937& random_;
    int submitted_ = 0;
};

// What one thread can tell that plays all the parts.
void check_rules() {
    camera_ai::WorkerPool pool(3);
    std::vector<camera_ai::WorkerPool::Completion> completions;
    Task tasks[3];
    for (int i = 0; i < 3; ++i) {
        require(pool.next_worker() == i, "at first workers are taken in their order");
        require(pool.submit(&tasks[i]), "a free worker takes a task");
    }
    require(!pool.submit(&tasks[0]) && pool.next_worker() == -1, "a worker has at most one task");
    for (int worker : {1, 2, 0}) pool.complete(worker, pool.wait(worker));
    require(!pool.submit(&tasks[0]), "a worker is free only once the loop knows");
    std::uint64_t writes = 0;
    require(read(pool.fd(), &writes, sizeof writes) == sizeof writes && writes == 1, "the loop is told once");
    pool.collect(completions);
    require(completions.size() == 3, "all is collected, though nothing was left to read");
    for (int i = 0; i < 3; ++i) {
        const int worker = (i + 1) % 3;
        require(completions[i].worker == worker && completions[i].task == &tasks[worker], "first come first");
    }
    require(pool.next_worker() == 0, "the worker that was freed last is taken first");
    pool.collect(completions);
    require(completions.empty(), "what was collected is not collected again");
}

}  // namespace

int main(int count, char** arguments) {
    require(count == 4, "usage: pool_stress TASKS STARTS SEED");
    const long tasks = std::atol(arguments[1]), starts = std::atol(arguments[2]);
    std::mt19937 random(static_cast<unsigned>(std::atol(arguments[3])));
    constexpr int SIZES[] = {1, 2, 3, 4, 8};
    check_rules();
    long done = 0, pools = 0;
    for (; done < tasks; ++pools)
        done += Round(SIZES[pools % 5], std::uniform_int_distribution<int>(1, 4000)(random), random).run();
    for (long i = 0; i < starts; ++i)
        done += Round(SIZES[i % 4], std::uniform_int_distribution<int>(0, 5)(random), random).run();
    std::printf("%ld tasks in %ld pools, each done once\n", done, pools + starts);
    return 0;
}
