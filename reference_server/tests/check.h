// Assertions, and a list of tests that runs itself: enough for one small program.
#pragma once

#include <cmath>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>

namespace check {

// Registers a test; its name says what holds.
struct Test {
  Test(const char* name, std::function<void()> body);
};

[[noreturn]] void fail(const char* file, int line, const std::string& what);

template <typename Found, typename Expected>
void equal(const Found& found, const Expected& expected, const char* file, int line, const char* text) {
  if (found == expected) return;
  std::ostringstream what;
  what << text << ": found " << found << ", expected " << expected;
  fail(file, line, what.str());
}

// Runs `action`, which has to throw an Error whose text holds `part`.
template <typename Error>
void throws(const std::function<void()>& action, const std::string& part, const char* file, int line) {
  try {
    action();
  } catch (const Error& error) {
    if (std::string(error.what()).find(part) != std::string::npos) return;
    fail(file, line, "found error '" + std::string(error.what()) + "', expected '" + part + "' in it");
  }
  fail(file, line, "found no error, expected one with '" + part + "'");
}

}  // namespace check

#define CHECK_JOIN_(a, b) a##b
#define CHECK_JOIN(a, b) CHECK_JOIN_(a, b)
#define TEST(name)                                                                           \
  static void CHECK_JOIN(test_, __LINE__)();                                                 \
  static const check::Test CHECK_JOIN(listed_, __LINE__)(name, CHECK_JOIN(test_, __LINE__)); \
  static void CHECK_JOIN(test_, __LINE__)()
#define CHECK(condition) \
  if (!(condition)) check::fail(__FILE__, __LINE__, #condition)
#define CHECK_EQUAL(found, expected) check::equal(found, expected, __FILE__, __LINE__, #found)
#define CHECK_NEAR(found, expected, most) \
  if (!(std::fabs((found) - (expected)) <= (most))) check::equal(found, expected, __FILE__, __LINE__, #found)
#define CHECK_THROWS(Error, part, action) check::throws<Error>([&] { action; }, part, __FILE__, __LINE__)
