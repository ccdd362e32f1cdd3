// Images to a model's input: bilinear, with half-pixel centres, without antialiasing.
#pragma once

#include <vector>

#include "detector.h"

namespace reference {

// Which two source pixels an output pixel lies between, and the second one's weight.
struct Tap {
  int first;
  int second;
  float weight;
};

// The taps of `length` output pixels over `source` pixels. The position is (i + 0.5) * source / length - 0.5
// in double; its floor is the first pixel, its fraction, rounded to float, the weight. Before the first pixel
// and beyond the last, the nearest counts alone.
std::vector<Tap> linear_taps(int source, int length);

// Resizes, not keeping the aspect, to planes of float: 3 x height x width, each value * scale + offset. In
// float: the two source rows are blended first, then the two columns, each as a + (b - a) * weight.
void resize_to_tensor(const Image& image, int width, int height, float scale, float offset, float* tensor);

}  // namespace reference
