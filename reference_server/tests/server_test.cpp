#include <unistd.h>
#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "check.h"
#include "errors.h"
#include "meeting.h"
#include "model_files.h"
#include "simulated.h"
#include "streams.h"
#include "wishes.h"

using reference::DetectorError;
using reference::parse_wishes;

namespace {

const std::vector<std::string> kLabels = {"", "person", "traffic light"};

class Stream : public reference::OpenStream {
 public:
  explicit Stream(bool begun) : begun_(begun) {}
  bool has_begun() const override { return begun_; }
  void end(const grpc::Status& status) override { ended_with = status.error_message(); }
  std::string ended_with;

 private:
  const bool begun_;
};

// A file that lives as long as the test.
class File {
 public:
  explicit File(const std::string& content)
      : path(std::filesystem::temp_directory_path() / ("reference-test." + std::to_string(getpid()))) {
    std::ofstream(path, std::ios::binary) << content;
  }
  ~File() { std::filesystem::remove(path); }
  const std::filesystem::path path;
};

std::string npy(const std::string& header, std::size_t bytes) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         std::string(bytes, '\0');
}

std::int64_t processor_time_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace

TEST("a call's wishes are labels, percent-encoded, and a least score") {
  CHECK(parse_wishes({}, kLabels).class_mask.empty());
  CHECK_EQUAL(parse_wishes({}, kLabels).min_score, 0.5F);
  const auto query =
      parse_wishes({{"camera-ai-labels", "traffic%20light,"}, {"camera-ai-min-score", "0.25"}}, kLabels);
  CHECK(query.class_mask == std::vector<std::uint8_t>({0, 0, 1}));
  CHECK_EQUAL(query.min_score, 0.25F);
  CHECK_THROWS(std::invalid_argument, "found perosn, expected some of: person, traffic light",
               parse_wishes({{"camera-ai-labels", "person,perosn"}}, kLabels));
  for (const char* score : {"", "much", "-0.1", "1.1", "nan", "50%"}) {
    CHECK_THROWS(std::invalid_argument, "expected a number from 0 to 1",
                 parse_wishes({{"camera-ai-min-score", score}}, kLabels));
  }
}

TEST("a silent call gives its place to a new one; one that has begun does not") {
  reference::Streams streams(2);
  Stream busy(true), silent(false), third(true), fourth(true);
  reference::Streams::Id id = 0;
  CHECK(streams.enter(&busy, &id).ok());
  CHECK(streams.enter(&silent, &id).ok());
  CHECK(streams.enter(&third, &id).ok());
  CHECK(silent.ended_with.find("no frame was sent") != std::string::npos);
  CHECK_EQUAL(streams.enter(&fourth, &id).error_message(), "over capacity: 2 of 2 streams");
  streams.leave(id);
  CHECK(streams.enter(&fourth, &id).ok());
}

TEST("a drain ends all calls and takes no more") {
  reference::Streams streams(2);
  Stream one(true), two(true);
  reference::Streams::Id id = 0;
  CHECK(streams.enter(&one, &id).ok());
  streams.start_draining();
  CHECK(streams.enter(&two, &id).error_code() == grpc::StatusCode::UNAVAILABLE);
  streams.end_all();
  CHECK_EQUAL(one.ended_with, "the server is draining");
  CHECK(!streams.wait_empty(std::chrono::steady_clock::now()));
  streams.leave(id);
  CHECK(streams.wait_empty(std::chrono::steady_clock::now()));
}

TEST("nobody leaves a meeting before all have come, and one is the last") {
  constexpr int kExpected = 4;
  for (int round = 0; round < 200; ++round) {
    reference::Meeting meeting(kExpected);
    std::atomic<int> come{0}, too_early{0}, last{0};
    std::vector<std::thread> threads;
    for (int number = 0; number < kExpected; ++number) {
      threads.emplace_back([&] {
        ++come;
        if (meeting.come()) ++last;
        if (come != kExpected) ++too_early;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_EQUAL(too_early, 0);
    CHECK_EQUAL(last, 1);
  }
}

TEST("simulated work takes its processor time, and looks at the query only") {
  reference::Simulated simulated(20, reference::Clock::kThreadCpu);
  const std::int64_t begun_ns = processor_time_ns();
  CHECK_EQUAL(simulated.detect({}, {}).size(), 1U);
  CHECK(processor_time_ns() - begun_ns >= 20'000'000);
  CHECK(simulated.detect({}, {0.95F, {}}).empty());
  CHECK(simulated.detect({}, {0.5F, {0}}).empty());
  CHECK_EQUAL(simulated.detect({}, {0.9F, {1}}).size(), 1U);
}

TEST("anchors are read from a NumPy file of the right kind and size only") {
  const auto refused = [](const std::string& content, const std::string& part) {
    const File file(content);
    CHECK_THROWS(DetectorError, part, reference::read_anchors(file.path));
  };
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n";
  const File file(npy(good, 48));
  CHECK_EQUAL(reference::read_anchors(file.path).size(), 3U);
  refused("", "found no .npy");
  refused("PK\3\4 and so on", "found no .npy");
  refused(npy(good, 47), "found 47 bytes for 3 anchors");
  refused(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }\n", 96),
          "expected a NumPy file of float32");
  refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4), }\n", 0), "0 anchors");
  CHECK_THROWS(DetectorError, "cannot be read", reference::read_anchors("/no/such/file"));
}

TEST("labels are read one a line; an empty line is a class without a name") {
  const File file("\nperson\n\n car \r\n\n\n");
  const auto labels = reference::read_labels(file.path);
  CHECK(labels == std::vector<std::string>({"", "person", "", "car"}));
  const File empty("\n\n");
  CHECK_THROWS(DetectorError, "found 0 labels", reference::read_labels(empty.path));
}
