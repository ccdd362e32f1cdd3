#include "wishes.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <stdexcept>

namespace reference {
namespace {

constexpr const char* kLabelsKey = "camera-ai-labels";
constexpr const char* kMinScoreKey = "camera-ai-min-score";
// One in work and one on its way.
constexpr int kWindow = 2;
// Of a bad value a client is told the beginning, and a status has to fit into 8 kB of metadata.
constexpr std::size_t kMaxEcho = 40;
constexpr std::size_t kMaxListed = 1500;

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char lower = static_cast<char>(digit | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Undoes percent-encoding; a percent sign that begins no byte is itself.
std::string unquote(const std::string& text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '%' && at + 2 < text.size() && hex_digit(text[at + 1]) >= 0 &&
        hex_digit(text[at + 2]) >= 0) {
      plain += static_cast<char>(hex_digit(text[at + 1]) * 16 + hex_digit(text[at + 2]));
      at += 2;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

std::set<std::string> split_labels(const std::string& text) {
  std::set<std::string> labels;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) labels.insert(unquote(text.substr(at, end - at)));
    at = end + 1;
  }
  return labels;
}

// Joins what is not empty with commas, as far as there is room for it.
template <typename Labels>
std::string listed(const Labels& labels) {
  std::string text;
  for (const std::string& label : labels) {
    if (label.empty()) continue;
    if (!text.empty()) text += ", ";
    text += label;
    if (text.size() > kMaxListed) return text.substr(0, kMaxListed) + "...";
  }
  return text;
}

float parse_min_score(const std::string& text) {
  char* end = nullptr;
  const double score = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(score >= 0 && score <= 1)) {
    throw std::invalid_argument(std::string(kMinScoreKey) + ": found '" + text.substr(0, kMaxEcho) +
                                "', expected a number from 0 to 1");
  }
  return static_cast<float>(score);
}

std::vector<std::uint8_t> make_mask(const std::set<std::string>& wanted,
                                    const std::vector<std::string>& labels) {
  std::vector<std::string> unknown;
  for (const std::string& label : wanted) {
    if (std::find(labels.begin(), labels.end(), label) == labels.end()) unknown.push_back(label);
  }
  if (!unknown.empty()) {
    throw std::invalid_argument(std::string(kLabelsKey) + ": found " + listed(unknown) +
                                ", expected some of: " + listed(labels));
  }
  std::vector<std::uint8_t> mask;
  for (const std::string& label : labels) mask.push_back(wanted.count(label) > 0 ? 1 : 0);
  return mask;
}

}  // namespace

Query parse_wishes(const ClientMetadata& metadata, const std::vector<std::string>& labels) {
  Query query;
  std::set<std::string> wanted;
  for (const auto& [key, value] : metadata) {
    const std::string text(value.data(), value.size());
    if (key == kLabelsKey) wanted = split_labels(text);
    if (key == kMinScoreKey) query.min_score = parse_min_score(text);
  }
  if (!wanted.empty()) query.class_mask = make_mask(wanted, labels);
  return query;
}

Facts make_facts(const Options& options, const Detector& detector) {
  Facts facts = {
      {"camera-ai-version", CAMERA_AI_VERSION},
      // Its names hold nothing that would have to be percent-encoded.
      {"camera-ai-detector", options.detector.name()},
      {"camera-ai-max-image-bytes", std::to_string(options.max_image_bytes)},
      {"camera-ai-max-image-pixels", std::to_string(options.max_image_pixels)},
      {"camera-ai-window", std::to_string(kWindow)},
      {"camera-ai-max-age-ms", std::to_string(options.max_age_ms)},
  };
  if (const auto input = detector.input_wh()) {
    facts.emplace_back("camera-ai-input-wh",
                       std::to_string(input->first) + "x" + std::to_string(input->second));
  }
  return facts;
}

}  // namespace reference
