#include "resize.h"

#include "check.h"

using reference::linear_taps;
using reference::resize_to_tensor;

TEST("shrinking to half lies between two pixels") {
  const auto taps = linear_taps(4, 2);
  CHECK_EQUAL(taps[0].first, 0);
  CHECK_EQUAL(taps[0].second, 1);
  CHECK_EQUAL(taps[0].weight, 0.5F);
  CHECK_EQUAL(taps[1].first, 2);
  CHECK_EQUAL(taps[1].second, 3);
}

TEST("before the first pixel and beyond the last the nearest counts alone") {
  const auto taps = linear_taps(2, 4);
  CHECK_EQUAL(taps[0].first, 0);
  CHECK_EQUAL(taps[0].weight, 0);
  CHECK_EQUAL(taps[1].weight, 0.25F);
  CHECK_EQUAL(taps[3].first, 1);
  CHECK_EQUAL(taps[3].second, 1);
  for (const auto& tap : linear_taps(1, 7)) CHECK(tap.first == 0 && tap.second == 0);
}

TEST("the same size is the same pixels") {
  for (const int size : {1, 7, 300, 4096}) {
    const auto taps = linear_taps(size, size);
    for (int i = 0; i < size; ++i) CHECK(taps[i].first == i && taps[i].weight == 0);
  }
}

TEST("positions are in double") {
  // (200.5 * 4095 / 300) - 0.5 = 2736.325; in float the fraction would be off by a ten-thousandth.
  const auto tap = linear_taps(4095, 300)[200];
  CHECK_EQUAL(tap.first, 2736);
  CHECK_NEAR(tap.weight, 0.325F, 1e-7);
}

TEST("an image becomes three planes, scaled and moved") {
  // Two rows of two pixels: red counts columns, green rows, blue is 255.
  const std::uint8_t rgb[] = {0, 0, 255, 200, 0, 255, 0, 100, 255, 200, 100, 255};
  float one[3];
  resize_to_tensor({rgb, 2, 2}, 1, 1, 1, 0, one);
  CHECK_EQUAL(one[0], 100);
  CHECK_EQUAL(one[1], 50);
  CHECK_EQUAL(one[2], 255);

  float wide[3 * 4 * 2];
  resize_to_tensor({rgb, 2, 2}, 4, 2, 2.0F / 255, -1, wide);
  const float columns[] = {0, 50, 150, 200};
  for (int y = 0; y < 2; ++y) {
    for (int x = 0; x < 4; ++x) {
      CHECK_NEAR(wide[y * 4 + x], columns[x] * 2 / 255 - 1, 1e-6);
      CHECK_NEAR(wide[8 + y * 4 + x], y * 100.0F * 2 / 255 - 1, 1e-6);
      CHECK_NEAR(wide[16 + y * 4 + x], 1, 1e-6);
    }
  }
}
