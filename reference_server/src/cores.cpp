#include "cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

namespace reference {
namespace {

const std::string kRoot = "/sys/fs/cgroup";

// Reads "quota period" from one file, or from two as version 1 has them; no quota is no limit.
double quota(std::istream&& limit, std::istream&& period) {
  double quota_us = 0;
  double period_us = 0;
  if (limit >> quota_us && (limit >> period_us || period >> period_us) && quota_us > 0 && period_us > 0) {
    return quota_us / period_us;
  }
  return HUGE_VAL;
}

// The least quota of a version 2 group and of every group above it.
double quota_v2(std::string group) {
  double least = HUGE_VAL;
  while (true) {
    least = std::min(least, quota(std::ifstream(kRoot + group + "/cpu.max"), std::istringstream()));
    const auto slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

double quota_v1(const std::string& controllers, const std::string& group) {
  double least = HUGE_VAL;
  for (const std::string& folder : {kRoot + "/" + controllers + group, kRoot + "/cpu"}) {
    least = std::min(least, quota(std::ifstream(folder + "/cpu.cfs_quota_us"),
                                  std::ifstream(folder + "/cpu.cfs_period_us")));
  }
  return least;
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  double cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  std::ifstream own_groups("/proc/self/cgroup");
  // Each line is number:controllers:group; version 2 has no controllers there.
  for (std::string number, controllers, group; std::getline(own_groups, number, ':') &&
                                               std::getline(own_groups, controllers, ':') &&
                                               std::getline(own_groups, group);) {
    if (controllers.empty()) {
      cores = std::min(cores, std::ceil(quota_v2(group)));
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      cores = std::min(cores, std::ceil(quota_v1(controllers, group)));
    }
  }
  return std::max(1, static_cast<int>(cores));
}

}  // namespace reference
