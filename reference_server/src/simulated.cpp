#include "simulated.h"

#include <ctime>

namespace reference {
namespace {

constexpr Detection kPerson{100, 100, 150, 300, 0.9F, 0};

std::int64_t now_ns(int clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace

Simulated::Simulated(double work_ms, Clock clock)
    : work_ns_(static_cast<std::int64_t>(work_ms * 1e6)),
      clock_(clock == Clock::kWall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID) {}

std::vector<Detection> Simulated::detect(const Image&, const Query& query) {
  if (work_ns_ > 0) {
    const std::int64_t begun_ns = now_ns(clock_);
    while (now_ns(clock_) - begun_ns < work_ns_) {
    }
  }
  const bool unwanted = !query.class_mask.empty() && query.class_mask[0] == 0;
  if (unwanted || query.min_score > kPerson.score) return {};
  return {kPerson};
}

}  // namespace reference
