#include "resize.h"

#include <algorithm>
#include <cmath>

namespace reference {

std::vector<Tap> linear_taps(int source, int length) {
  std::vector<Tap> taps(length);
  for (int i = 0; i < length; ++i) {
    const double position = (i + 0.5) * source / length - 0.5;
    const double floor = std::floor(position);
    const int first = std::max(0, static_cast<int>(floor));
    const float weight = floor < 0 ? 0.0F : static_cast<float>(position - floor);
    taps[i] = {first, std::min(first + 1, source - 1), weight};
  }
  return taps;
}

void resize_to_tensor(const Image& image, int width, int height, float scale, float offset, float* tensor) {
  const std::vector<Tap> columns = linear_taps(image.width, width);
  const std::vector<Tap> rows = linear_taps(image.height, height);
  const std::size_t stride = static_cast<std::size_t>(image.width) * 3;
  const std::size_t plane = static_cast<std::size_t>(width) * height;
  for (int y = 0; y < height; ++y) {
    const std::uint8_t* top = image.rgb + rows[y].first * stride;
    const std::uint8_t* bottom = image.rgb + rows[y].second * stride;
    const float down = rows[y].weight;
    const auto blend_rows = [&](std::size_t at) {
      const float upper = top[at];
      return upper + (static_cast<float>(bottom[at]) - upper) * down;
    };
    float* out = tensor + static_cast<std::size_t>(y) * width;
    for (int x = 0; x < width; ++x) {
      const Tap& tap = columns[x];
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const float left = blend_rows(tap.first * 3 + channel);
        const float right = blend_rows(tap.second * 3 + channel);
        out[channel * plane + x] = (left + (right - left) * tap.weight) * scale + offset;
      }
    }
  }
}

}  // namespace reference
