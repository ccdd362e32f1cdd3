#include "check.h"

#include <cstdio>
#include <utility>
#include <vector>

namespace check {
namespace {

std::vector<std::pair<const char*, std::function<void()>>>& tests() {
  static std::vector<std::pair<const char*, std::function<void()>>> all;
  return all;
}

}  // namespace

Test::Test(const char* name, std::function<void()> body) { tests().emplace_back(name, std::move(body)); }

void fail(const char* file, int line, const std::string& what) {
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

}  // namespace check

int main() {
  int failed = 0;
  for (const auto& [name, body] : check::tests()) {
    try {
      body();
    } catch (const std::exception& error) {
      ++failed;
      std::printf("FAILED %s\n  %s\n", name, error.what());
    }
  }
  std::printf("%zu tests, %d failed\n", check::tests().size(), failed);
  return failed == 0 ? 0 : 1;
}
