// JPEG files: what their headers say, and their pixels.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace reference {

// From a JPEG's start of frame: pixels, bits in a sample, and 1, 3, or 4 channels for CMYK.
struct JpegHeader {
  int width;
  int height;
  int bits;
  int channels;
};

// Walks the segments (ITU-T T.81 annex B) up to the first scan, as libjpeg does. Throws BadImage when there
// is no start of frame before it, more than one, one that is not decoded here, or anything that does not
// belong.
JpegHeader read_jpeg_header(std::string_view data);

// Fills `rgb` with all pixels, decoded by libjpeg-turbo with the accurate DCT and the smooth upsampling. CMYK
// is taken as inverted, as Adobe writes it. Throws BadImage for whatever libjpeg-turbo would only warn of,
// too.
void decode_jpeg(std::string_view data, const JpegHeader& header, std::vector<std::uint8_t>* rgb);

}  // namespace reference
