// PNG files (ISO/IEC 15948), read and checked before a decoder sees them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reference {

// What counts in a PNG: size in pixels, how a pixel is stored, palette and compressed data.
struct PngFile {
  std::uint32_t width;
  std::uint32_t height;
  int bits;
  int colour_type;
  bool interlaced;
  std::string palette;
  std::string data;
};

// Walks the chunks and keeps those that say something of the pixels. Throws BadImage when one is missing,
// cut, damaged or out of place, TooLarge when a side is longer than any decoder takes.
PngFile read_png(std::string_view file);

// Decodes with OpenCV, which gets a file of nothing but header, palette and pixels: libpng would write a line
// to stderr for each kind of damage elsewhere, so its data is inflated and each row's filter looked at
// before. Fills `rgb`; 16 bits become 8 by their high byte, alpha is dropped. Throws BadImage.
void decode_png(const PngFile& png, std::vector<std::uint8_t>* rgb);

}  // namespace reference
