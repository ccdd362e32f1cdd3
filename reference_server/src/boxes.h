// The outputs of an SSD to boxes of the image (Liu et al. 2016, with TensorFlow's coder), and suppression.
#pragma once

#include <cstdint>
#include <vector>

#include "detector.h"

namespace reference {

// ymin, xmin, ymax, xmax, in fractions of the image.
struct Anchor {
  float ymin, xmin, ymax, xmax;
};

// What an SSD answers for one image. `encodings` has ty, tx, th, tw for each anchor, `logits` a value for
// each anchor and class; class 0 is the background.
struct SsdOutput {
  const float* encodings;
  const float* logits;
  int classes;
};

// Every pair of anchor and class whose score (the logit's sigmoid, as float) is at least `min_score` and
// whose class is in `class_mask` (by class id, 1 for wanted) is a detection of its own, in that order, if its
// box, clipped to the image, has a positive width and height. NaN never passes. Arithmetic is in double.
std::vector<Detection> decode_ssd(const SsdOutput& output, const std::vector<Anchor>& anchors, int width,
                                  int height, float min_score, const std::vector<std::uint8_t>& class_mask);

// Greedy non-maximum suppression for each class: boxes are taken by score descending, equal scores in their
// order, and one is left out when its overlap (IoU, in double) with one kept before, of its class, is greater
// than the threshold. What is not finite is dropped. Ends at `max_detections` kept, or kMaxCandidates looked
// at.
std::vector<Detection> suppress(std::vector<Detection> candidates, double iou_threshold,
                                std::size_t max_detections);

constexpr std::size_t kMaxCandidates = 4096;

// Intersection over union; 0 for a box without an area.
double iou(const Detection& one, const Detection& other);

}  // namespace reference
