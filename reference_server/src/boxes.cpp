#include "boxes.h"

#include <algorithm>
#include <cmath>

namespace reference {
namespace {

// Lets NaN through, for the comparison of areas to refuse.
double clip(double edge, double most) { return edge < 0 ? 0 : edge > most ? most : edge; }

float sigmoid(float logit) { return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logit)))); }

// A logit below which no score passes: most need no exponential. A little low, for rounding.
float logit_of(float score) {
  const double capped = std::min(static_cast<double>(score), 0.9999);
  return static_cast<float>(std::log(capped / (1 - capped)) - 0.01);
}

Detection place(const float* encoding, const Anchor& anchor, int width, int height) {
  const double anchor_height = static_cast<double>(anchor.ymax) - anchor.ymin;
  const double anchor_width = static_cast<double>(anchor.xmax) - anchor.xmin;
  const double y = encoding[0] / 10.0 * anchor_height + (static_cast<double>(anchor.ymin) + anchor.ymax) / 2;
  const double x = encoding[1] / 10.0 * anchor_width + (static_cast<double>(anchor.xmin) + anchor.xmax) / 2;
  const double half_height = std::exp(encoding[2] / 5.0) * anchor_height / 2;
  const double half_width = std::exp(encoding[3] / 5.0) * anchor_width / 2;
  Detection box{};
  box.x1 = static_cast<float>(clip((x - half_width) * width, width));
  box.y1 = static_cast<float>(clip((y - half_height) * height, height));
  box.x2 = static_cast<float>(clip((x + half_width) * width, width));
  box.y2 = static_cast<float>(clip((y + half_height) * height, height));
  return box;
}

double area(const Detection& box) {
  return std::max(0.0, static_cast<double>(box.x2) - box.x1) *
         std::max(0.0, static_cast<double>(box.y2) - box.y1);
}

bool is_finite(const Detection& box) {
  return std::isfinite(box.x1) && std::isfinite(box.y1) && std::isfinite(box.x2) && std::isfinite(box.y2) &&
         !std::isnan(box.score);
}

}  // namespace

std::vector<Detection> decode_ssd(const SsdOutput& output, const std::vector<Anchor>& anchors, int width,
                                  int height, float min_score, const std::vector<std::uint8_t>& class_mask) {
  std::vector<Detection> detections;
  const float least_logit = logit_of(min_score);
  for (std::size_t anchor = 0; anchor < anchors.size(); ++anchor) {
    const float* logits = output.logits + anchor * output.classes;
    for (int class_id = 1; class_id < output.classes; ++class_id) {
      if (!(logits[class_id] >= least_logit) || class_mask[class_id] == 0) continue;
      const float score = sigmoid(logits[class_id]);
      if (!(score >= min_score)) continue;
      Detection found = place(output.encodings + anchor * 4, anchors[anchor], width, height);
      if (!(found.x2 > found.x1 && found.y2 > found.y1)) continue;
      found.score = score;
      found.class_id = class_id;
      detections.push_back(found);
    }
  }
  return detections;
}

double iou(const Detection& one, const Detection& other) {
  const double width = static_cast<double>(std::min(one.x2, other.x2)) - std::max(one.x1, other.x1);
  const double height = static_cast<double>(std::min(one.y2, other.y2)) - std::max(one.y1, other.y1);
  if (!(width > 0 && height > 0)) return 0;
  const double shared = width * height;
  return shared / (area(one) + area(other) - shared);
}

std::vector<Detection> suppress(std::vector<Detection> candidates, double iou_threshold,
                                std::size_t max_detections) {
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                  [](const Detection& box) { return !is_finite(box); }),
                   candidates.end());
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Detection& one, const Detection& other) { return one.score > other.score; });
  if (candidates.size() > kMaxCandidates) candidates.resize(kMaxCandidates);
  std::vector<Detection> kept;
  for (const Detection& candidate : candidates) {
    if (kept.size() == max_detections) break;
    const bool suppressed = std::any_of(kept.begin(), kept.end(), [&](const Detection& rival) {
      return rival.class_id == candidate.class_id && iou(rival, candidate) > iou_threshold;
    });
    if (!suppressed) kept.push_back(candidate);
  }
  return kept;
}

}  // namespace reference
