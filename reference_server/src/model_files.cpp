#include "model_files.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "errors.h"

namespace reference {
namespace {

constexpr const char* kBlank = " \t\r\n";
// What is larger is some other file.
constexpr std::size_t kMaxBytes = 16 << 20;
constexpr std::size_t kMaxLabels = 10'000;
constexpr std::size_t kMaxAnchors = 1'000'000;

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw DetectorError(path.string() + ": cannot be read: " + error.message());
  if (size > kMaxBytes) {
    throw DetectorError(path.string() + ": found " + std::to_string(size) + " bytes, expected at most " +
                        std::to_string(kMaxBytes));
  }
  std::string data(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(data.data(), static_cast<std::streamsize>(size))) {
    throw DetectorError(path.string() + ": cannot be read");
  }
  return data;
}

std::string strip(const std::string& line) {
  const auto first = line.find_first_not_of(kBlank);
  return first == std::string::npos ? "" : line.substr(first, line.find_last_not_of(kBlank) - first + 1);
}

}  // namespace

std::vector<Anchor> read_anchors(const std::filesystem::path& path) {
  const std::string data = read_file(path);
  const std::string expected = ", expected a NumPy file of float32 (n, 4) in C order";
  // Six bytes of magic, two of version, the length of the header in two bytes (version 1), the header.
  if (data.size() < 10 || data.compare(0, 6, "\x93NUMPY") != 0 || data[6] != 1) {
    throw DetectorError(path.string() + ": found no .npy of version 1" + expected);
  }
  const std::size_t length = static_cast<unsigned char>(data[8]) | static_cast<unsigned char>(data[9]) << 8;
  const std::string header = data.substr(10, length);
  std::size_t count = 0;
  int end = 0;
  std::sscanf(header.c_str(), "{'descr': '<f4', 'fortran_order': False, 'shape': (%7zu, 4), }%n", &count,
              &end);
  if (end == 0 || !strip(header.substr(end)).empty()) {
    throw DetectorError(path.string() + ": found header " + strip(header.substr(0, 100)) + expected);
  }
  const std::size_t bytes = data.size() - 10 - length;
  if (count == 0 || count > kMaxAnchors || bytes != count * sizeof(Anchor)) {
    throw DetectorError(path.string() + ": found " + std::to_string(bytes) + " bytes for " +
                        std::to_string(count) + " anchors, expected 16 for each of at least one");
  }
  std::vector<Anchor> anchors(count);
  std::memcpy(anchors.data(), data.data() + 10 + length, bytes);
  return anchors;
}

std::vector<std::string> read_labels(const std::filesystem::path& path) {
  std::istringstream lines(read_file(path));
  std::vector<std::string> labels;
  for (std::string line; std::getline(lines, line);) labels.push_back(strip(line));
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  if (labels.empty() || labels.size() > kMaxLabels) {
    throw DetectorError(path.string() + ": found " + std::to_string(labels.size()) +
                        " labels, expected one a line, 1 to " + std::to_string(kMaxLabels));
  }
  return labels;
}

}  // namespace reference
