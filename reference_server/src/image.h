// A frame's bytes to pixels: only JPEG, PNG and raw frames, checked by their headers before anything is
// allocated. The rules are those of docs/wire.md.
#pragma once

#include <cstdint>
#include <vector>

#include "camera_ai/detection.pb.h"
#include "detector.h"

namespace reference {

// One for each thread; keeps the buffer that the pixels are in.
class ImageDecoder {
 public:
  explicit ImageDecoder(std::int64_t max_pixels) : max_pixels_(max_pixels) {}

  // The image belongs to the decoder or to the frame, until the next one. Throws TooLarge for more pixels
  // than the limit, BadImage for what is no whole picture of the format it claims.
  Image decode(const camera_ai::DetectRequest& frame);

 private:
  Image decode_raw(const camera_ai::DetectRequest& frame, int channels);
  void check_size(std::uint64_t width, std::uint64_t height) const;

  const std::uint64_t max_pixels_;
  std::vector<std::uint8_t> rgb_;
};

}  // namespace reference
