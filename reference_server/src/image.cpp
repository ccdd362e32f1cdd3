#include "image.h"

#include <cstdio>
#include <string>
#include <string_view>

#include "errors.h"
#include "jpeg_file.h"
#include "png_file.h"

namespace reference {
namespace {

using camera_ai::DetectRequest;

constexpr std::uint64_t kMinSidePx = 8;
constexpr std::string_view kJpegStart = "\xff\xd8\xff";
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";

bool begins_with(std::string_view data, std::string_view start) {
  return data.substr(0, start.size()) == start;
}

std::string expected_by(camera_ai::ImageFormat format) {
  switch (format) {
    case camera_ai::IMAGE_FORMAT_ENCODED:
      return "JPEG or PNG";
    case camera_ai::IMAGE_FORMAT_JPEG:
      return "JPEG";
    default:
      return "PNG";
  }
}

std::string found_in(std::string_view data) {
  if (data.empty()) return "no bytes";
  std::string text = "bytes that begin";
  for (const char byte : data.substr(0, 8)) {
    char digits[8];
    std::snprintf(digits, sizeof digits, " %02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

}  // namespace

Image ImageDecoder::decode(const DetectRequest& frame) {
  const auto format = frame.format();
  const std::string_view data = frame.image_data();
  if (format == camera_ai::IMAGE_FORMAT_RGB24 || format == camera_ai::IMAGE_FORMAT_BGR24) {
    return decode_raw(frame, 3);
  }
  if (format == camera_ai::IMAGE_FORMAT_GRAY8) return decode_raw(frame, 1);
  if (!camera_ai::ImageFormat_IsValid(format)) {
    throw BadImage("found an image format that this version does not know, expected JPEG, PNG or raw");
  }
  if (begins_with(data, kJpegStart) && format != camera_ai::IMAGE_FORMAT_PNG) {
    const JpegHeader header = read_jpeg_header(data);
    check_size(header.width, header.height);
    decode_jpeg(data, header, &rgb_);
    return {rgb_.data(), header.width, header.height};
  }
  if (begins_with(data, kPngStart) && format != camera_ai::IMAGE_FORMAT_JPEG) {
    const PngFile png = read_png(data);
    check_size(png.width, png.height);
    decode_png(png, &rgb_);
    return {rgb_.data(), static_cast<int>(png.width), static_cast<int>(png.height)};
  }
  throw BadImage("found " + found_in(data) + ", expected " + expected_by(format));
}

Image ImageDecoder::decode_raw(const DetectRequest& frame, int channels) {
  check_size(frame.width(), frame.height());
  const int width = static_cast<int>(frame.width());
  const int height = static_cast<int>(frame.height());
  const std::string& data = frame.image_data();
  const std::size_t pixels = static_cast<std::size_t>(width) * height;
  if (data.size() != pixels * channels) {
    throw BadImage("found " + std::to_string(data.size()) + " bytes of raw pixels, expected " +
                   std::to_string(width) + " x " + std::to_string(height) + " x " + std::to_string(channels) +
                   " = " + std::to_string(pixels * channels));
  }
  const auto* from = reinterpret_cast<const std::uint8_t*>(data.data());
  if (frame.format() == camera_ai::IMAGE_FORMAT_RGB24) return {from, width, height};
  // B G R is read backwards, luminance three times.
  const std::size_t red = channels == 3 ? 2 : 0;
  const std::size_t green = channels == 3 ? 1 : 0;
  rgb_.resize(pixels * 3);
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    rgb_[pixel * 3] = from[pixel * channels + red];
    rgb_[pixel * 3 + 1] = from[pixel * channels + green];
    rgb_[pixel * 3 + 2] = from[pixel * channels];
  }
  return {rgb_.data(), width, height};
}

void ImageDecoder::check_size(std::uint64_t width, std::uint64_t height) const {
  const std::string size = std::to_string(width) + " x " + std::to_string(height);
  if (width < kMinSidePx || height < kMinSidePx) {
    throw BadImage("found " + size + " pixels, expected at least 8 x 8");
  }
  if (width * height > max_pixels_) {
    throw TooLarge("found " + size + " = " + std::to_string(width * height) + " pixels, expected at most " +
                   std::to_string(max_pixels_));
  }
}

}  // namespace reference
