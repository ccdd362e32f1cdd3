#include "boxes.h"

#include <limits>

#include "check.h"

using reference::Anchor;
using reference::decode_ssd;
using reference::Detection;
using reference::iou;
using reference::suppress;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
// A quarter of the image, in its middle.
const std::vector<Anchor> kMiddle = {{0.25F, 0.25F, 0.75F, 0.75F}};

std::vector<Detection> decode(std::vector<float> encodings, std::vector<float> logits, float min_score = 0.5F,
                              std::vector<std::uint8_t> mask = {1, 1, 1}) {
  const reference::SsdOutput output{encodings.data(), logits.data(), 3};
  const std::vector<Anchor> anchors(logits.size() / 3, kMiddle[0]);
  return decode_ssd(output, anchors, 200, 100, min_score, mask);
}

Detection box(float x1, float y1, float x2, float y2, float score, int class_id = 1) {
  return {x1, y1, x2, y2, score, class_id};
}

}  // namespace

TEST("without an encoding a box is its anchor, in pixels of the image") {
  const auto found = decode({0, 0, 0, 0}, {-9, 2, -9});
  CHECK_EQUAL(found.size(), 1U);
  CHECK_EQUAL(found[0].x1, 50);
  CHECK_EQUAL(found[0].y1, 25);
  CHECK_EQUAL(found[0].x2, 150);
  CHECK_EQUAL(found[0].y2, 75);
  CHECK_EQUAL(found[0].class_id, 1);
  CHECK_NEAR(found[0].score, 0.880797F, 1e-6);
}

TEST("an encoding moves by tenths of the anchor and grows by powers of e") {
  // A tenth of 2 times the anchor's height down, to e^(1/5) its width.
  const auto found = decode({2, 0, 0, 1}, {-9, 2, -9});
  CHECK_NEAR(found[0].y1, 25 + 10, 1e-4);
  CHECK_NEAR(found[0].y2, 75 + 10, 1e-4);
  CHECK_NEAR(found[0].x2 - found[0].x1, 122.14028, 1e-4);
}

TEST("boxes end at the image's edges, and what is left of it is no box") {
  const auto beyond = decode({0, 0, 50, 500}, {-9, 2, -9});
  CHECK_EQUAL(beyond[0].x1, 0);
  CHECK_EQUAL(beyond[0].y1, 0);
  CHECK_EQUAL(beyond[0].x2, 200);
  CHECK_EQUAL(beyond[0].y2, 100);
  CHECK(decode({0, 1000, 0, 0}, {-9, 2, -9}).empty());
  CHECK(decode({0, 0, -5000, 0}, {-9, 2, -9}).empty());
  CHECK_EQUAL(decode({0, 0, 1e9F, 0}, {-9, 2, -9})[0].y2, 100);
}

TEST("a score of exactly the least is enough; the background, NaN and the unwanted never are") {
  CHECK_EQUAL(decode({0, 0, 0, 0}, {-9, 0, -9}).size(), 1U);
  CHECK(decode({0, 0, 0, 0}, {-9, -1e-6F, -9}).empty());
  CHECK(decode({0, 0, 0, 0}, {9, -9, -9}).empty());
  CHECK(decode({0, 0, 0, 0}, {-9, kNan, -9}).empty());
  CHECK(decode({kNan, 0, 0, 0}, {-9, 2, -9}).empty());
  CHECK(decode({0, 0, 0, 0}, {-9, 2, -9}, 0.5F, {1, 0, 1}).empty());
  CHECK_EQUAL(decode({0, 0, 0, 0}, {-9, -20, -30}, 0.0F).size(), 2U);
  CHECK_EQUAL(decode({0, 0, 0, 0}, {-9, 40, 10}, 1.0F).size(), 1U);
}

TEST("an anchor may carry several labels, in the order of anchor, then class") {
  const auto found = decode({0, 0, 0, 0, 0, 0, 0, 0}, {-9, 1, 2, -9, 3, -9});
  CHECK_EQUAL(found.size(), 3U);
  CHECK_EQUAL(found[0].class_id, 1);
  CHECK_EQUAL(found[1].class_id, 2);
  CHECK_EQUAL(found[2].class_id, 1);
}

TEST("overlap is what two boxes share by what they cover together") {
  CHECK_EQUAL(iou(box(0, 0, 10, 10, 1), box(0, 0, 10, 10, 1)), 1);
  CHECK_NEAR(iou(box(0, 0, 10, 10, 1), box(5, 0, 15, 10, 1)), 1.0 / 3, 1e-12);
  CHECK_EQUAL(iou(box(0, 0, 10, 10, 1), box(10, 0, 20, 10, 1)), 0);
  CHECK_EQUAL(iou(box(0, 0, 10, 10, 1), box(5, 5, 5, 9, 1)), 0);
}

TEST("a box is left out when it overlaps a better one of its class by more than the threshold") {
  const auto kept =
      suppress({box(0, 0, 10, 10, 0.6F), box(0, 0, 10, 9, 0.9F), box(0, 0, 10, 10, 0.5F, 2)}, 0.6, 100);
  CHECK_EQUAL(kept.size(), 2U);
  CHECK_EQUAL(kept[0].score, 0.9F);
  CHECK_EQUAL(kept[1].class_id, 2);
  // Exactly a half of both: equal is kept.
  const std::vector<Detection> halves = {box(0, 0, 10, 10, 0.9F), box(0, 0, 10, 5, 0.8F)};
  CHECK_EQUAL(suppress(halves, 0.5, 100).size(), 2U);
  CHECK_EQUAL(suppress(halves, 0.499, 100).size(), 1U);
}

TEST("of equal scores the first counts, and what is suppressed suppresses nothing") {
  const auto tie = suppress({box(0, 0, 10, 10, 0.9F), box(0, 0, 10, 9, 0.9F)}, 0.6, 100);
  CHECK_EQUAL(tie.size(), 1U);
  CHECK_EQUAL(tie[0].y2, 10);
  const auto chain =
      suppress({box(0, 0, 10, 10, 0.9F), box(3, 0, 13, 10, 0.8F), box(6, 0, 16, 10, 0.7F)}, 0.5, 100);
  CHECK_EQUAL(chain.size(), 2U);
  CHECK_EQUAL(chain[1].x1, 6);
}

TEST("what is not finite is dropped, and so is what is too many") {
  CHECK(suppress({box(kNan, 0, 1, 1, 0.9F), box(0, 0, kInfinity, 1, 0.9F), box(0, 0, 1, 1, kNan)}, 0.6, 9)
            .empty());
  std::vector<Detection> row;
  for (int i = 0; i < 20; ++i) row.push_back(box(i * 10.0F, 0, i * 10.0F + 9, 9, 0.5F + i / 100.0F));
  const auto best = suppress(row, 0.6, 5);
  CHECK_EQUAL(best.size(), 5U);
  CHECK_EQUAL(best[0].x1, 190);
}
