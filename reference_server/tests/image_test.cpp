#include "image.h"

#include <turbojpeg.h>
#include <zlib.h>

#include <string>

#include "check.h"
#include "errors.h"

using camera_ai::ImageFormat;
using reference::BadImage;
using reference::TooLarge;

namespace {

constexpr std::int64_t kMaxPixels = 1'000'000;

// Decodes; the sum of all bytes stands for the pixels, which the next picture overwrites.
struct Decoded {
  int width;
  int height;
  std::uint64_t sum;
};

Decoded decode(const std::string& data, int format = camera_ai::IMAGE_FORMAT_ENCODED, unsigned width = 0,
               unsigned height = 0) {
  static reference::ImageDecoder decoder(kMaxPixels);
  camera_ai::DetectRequest frame;
  frame.set_image_data(data);
  frame.set_format(static_cast<ImageFormat>(format));
  frame.set_width(width);
  frame.set_height(height);
  const reference::Image image = decoder.decode(frame);
  Decoded decoded{image.width, image.height, 0};
  for (int at = 0; at < image.width * image.height * 3; ++at) decoded.sum += image.rgb[at];
  return decoded;
}

// Grey of one brightness, as a JPEG.
std::string jpeg(int width, int height, int sampling = TJSAMP_420, int flags = 0, unsigned char grey = 100) {
  const std::vector<unsigned char> rgb(width * height * 3, grey);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const tjhandle handle = tjInitCompress();
  tjCompress2(handle, rgb.data(), width, 0, height, TJPF_RGB, &bytes, &size, sampling, 90, flags);
  std::string file(reinterpret_cast<char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(handle);
  return file;
}

// Where the start of frame is (its 0xFF).
std::size_t frame_of(const std::string& file) {
  std::size_t at = 2;
  while (file[at + 1] != '\xc0' && file[at + 1] != '\xc2') {
    at += 2 + (static_cast<unsigned char>(file[at + 2]) << 8 | static_cast<unsigned char>(file[at + 3]));
  }
  return at;
}

std::string with(std::string file, std::size_t at, const std::string& bytes) {
  return file.replace(at, bytes.size(), bytes);
}

std::string number(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string chunk(const std::string& kind, const std::string& body) {
  const std::string whole = kind + body;
  return number(body.size()) + whole +
         number(crc32(0, reinterpret_cast<const Bytef*>(whole.data()), whole.size()));
}

std::string deflated(const std::string& data) {
  uLongf size = compressBound(data.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(&packed[0]), &size, reinterpret_cast<const Bytef*>(data.data()),
           data.size());
  return packed.substr(0, size);
}

const std::string kPngStart("\x89PNG\r\n\x1a\n");
const std::string kRows(8 * 25, '\0');

std::string header(unsigned width, unsigned height, char bits = 8, char colour = 2, char interlace = 0) {
  return kPngStart +
         chunk("IHDR", number(width) + number(height) + std::string{bits, colour, 0, 0, interlace});
}

std::string png(const std::string& rows, const std::string& extra = "") {
  return header(8, 8) + extra + chunk("IDAT", deflated(rows)) + chunk("IEND", "");
}

}  // namespace

TEST("JPEGs of the usual samplings, progressive ones and grey ones are decoded") {
  for (const int sampling : {TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_440, TJSAMP_411, TJSAMP_GRAY}) {
    for (const int flags : {0, TJFLAG_PROGRESSIVE}) {
      const Decoded decoded = decode(jpeg(33, 17, sampling, flags));
      CHECK_EQUAL(decoded.width, 33);
      CHECK_EQUAL(decoded.height, 17);
      CHECK_NEAR(decoded.sum / (33.0 * 17 * 3), 100, 1.5);
    }
  }
}

TEST("a JPEG cut anywhere is refused, and harms none that comes after it") {
  const std::string whole = jpeg(64, 48);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK_THROWS(BadImage, "found", decode(whole.substr(0, length)));
    if (length % 50 == 0) CHECK_EQUAL(decode(whole).width, 64);
  }
}

TEST("JPEGs that no decoder here takes are refused by their header") {
  const std::string whole = jpeg(64, 48);
  const std::size_t frame = frame_of(whole);
  CHECK_THROWS(BadImage, "12 bits a sample", decode(with(whole, frame + 4, "\x0c")));
  for (const char marker : {'\xc3', '\xc5', '\xc9', '\xca', '\xcf'}) {
    CHECK_THROWS(BadImage, "expected baseline", decode(with(whole, frame + 1, {marker})));
  }
  CHECK_THROWS(BadImage, "channels with a start of frame", decode(with(whole, frame + 9, "\x04")));
  const std::string again = whole.substr(frame, 19);
  CHECK_THROWS(BadImage, "does not belong there", decode(std::string(whole).insert(frame, again)));
  CHECK_THROWS(BadImage, "expected a marker", decode(with(whole, frame, "x")));
  std::string scans;
  for (int i = 0; i < 101; ++i) scans += "\xff\xda";
  CHECK_THROWS(BadImage, "scans, expected at most 100", decode(whole + scans));
  CHECK_THROWS(BadImage, "is not decoded", decode(with(jpeg(64, 48, TJSAMP_444), frame + 11, "\x42")));
}

TEST("a size is told by the header, and refused before anything is allocated") {
  const std::string whole = jpeg(64, 48);
  const std::size_t size = frame_of(whole) + 5;
  CHECK_THROWS(TooLarge, "30000 x 30000 = 900000000 pixels, expected at most 1000000",
               decode(with(whole, size, "\x75\x30\x75\x30")));
  CHECK_THROWS(TooLarge, "1000 x 1001", decode(header(1000, 1001) + chunk("IDAT", "") + chunk("IEND", "")));
  CHECK_EQUAL(decode(jpeg(1000, 1000)).height, 1000);
  CHECK_THROWS(BadImage, "found 7 x 100 pixels, expected at least 8 x 8", decode(jpeg(7, 100)));
  CHECK_EQUAL(decode(jpeg(8, 8)).height, 8);
}

TEST("PNGs of every kind have eight bits and three channels then") {
  const std::string end = chunk("IEND", "");
  CHECK_EQUAL(decode(png(kRows)).sum, 0U);
  // Grey of 16 bits: the high byte counts.
  std::string rows;
  for (int y = 0; y < 8; ++y)
    rows += std::string(1, '\0') +
            std::string("\x12\xff\x12\xff\x12\xff\x12\xff\x12\xff\x12\xff\x12\xff\x12\xff", 16);
  CHECK_EQUAL(decode(header(8, 8, 16, 0) + chunk("IDAT", deflated(rows)) + end).sum, 8U * 8 * 3 * 0x12);
  // Grey with alpha: the alpha is dropped.
  CHECK_EQUAL(decode(header(8, 8, 8, 4) + chunk("IDAT", deflated(rows)) + end).sum, 8U * 8 * 3 * 0x12);
  // One bit a pixel, all of them white; and a palette that is shorter than its pixels: the rest is black.
  std::string bits;
  for (int y = 0; y < 8; ++y) bits += std::string("\0\xff", 2);
  CHECK_EQUAL(decode(header(8, 8, 1, 0) + chunk("IDAT", deflated(bits)) + end).sum, 8U * 8 * 3 * 255);
  CHECK_EQUAL(decode(header(8, 8, 1, 3) + chunk("PLTE", "abc") + chunk("IDAT", deflated(bits)) + end).sum,
              0U);
}

TEST("interlaced PNGs have the rows of seven passes") {
  // Of 8 x 8 pixels: passes of 1x1, 1x1, 2x1, 2x2, 4x2, 4x4 and 8x4, each row after its filter byte.
  std::string rows;
  for (const auto& [columns, count] : {std::pair{1, 1}, {1, 1}, {2, 1}, {2, 2}, {4, 2}, {4, 4}, {8, 4}}) {
    for (int row = 0; row < count; ++row) rows += std::string(1, '\0') + std::string(columns * 3, '\x05');
  }
  const auto interlaced = [](const std::string& data) {
    return decode(header(8, 8, 8, 2, 1) + chunk("IDAT", deflated(data)) + chunk("IEND", ""));
  };
  CHECK_EQUAL(interlaced(rows).sum, 8U * 8 * 3 * 5);
  CHECK_THROWS(BadImage, "too few rows", interlaced(rows.substr(0, rows.size() - 1)));
  CHECK_THROWS(BadImage, "too many rows", interlaced(rows + "x"));
}

TEST("damage to a PNG is found before a decoder sees it") {
  const std::string end = chunk("IEND", "");
  const std::string data = deflated(kRows);
  CHECK_THROWS(BadImage, "too few rows", decode(png(kRows.substr(1))));
  CHECK_THROWS(BadImage, "too many rows", decode(png(kRows + "x")));
  CHECK_THROWS(BadImage, "row filter", decode(png(std::string(kRows).replace(175, 1, "\5"))));
  CHECK_THROWS(BadImage, "damaged", decode(header(8, 8) + chunk("IDAT", "garbage") + end));
  CHECK_THROWS(BadImage, "no end",
               decode(header(8, 8) + chunk("IDAT", data.substr(0, data.size() - 1)) + end));
  CHECK_THROWS(BadImage, "bytes behind", decode(header(8, 8) + chunk("IDAT", data + "?") + end));
  CHECK_THROWS(BadImage, "no end", decode(header(8, 8) + end));
  CHECK_THROWS(BadImage, "chunk at byte 8 is damaged", decode(with(png(kRows), 20, "?")));
  CHECK_THROWS(BadImage, "without its end", decode(header(8, 8) + chunk("IDAT", data)));
  CHECK_THROWS(BadImage, "critical chunk", decode(png(kRows, chunk("ABCD", ""))));
  CHECK_THROWS(BadImage, "begin", decode(kPngStart + chunk("IDAT", "")));
  CHECK_THROWS(BadImage, "colour type 5", decode(header(8, 8, 8, 5) + end));
  CHECK_THROWS(BadImage, "4 bits", decode(header(8, 8, 4, 2) + end));
  CHECK_THROWS(BadImage, "0 bytes of palette", decode(header(8, 8, 4, 3) + end));
  CHECK_THROWS(TooLarge, "1000001", decode(header(8, 1'000'001) + end));
  CHECK_EQUAL(decode(png(kRows, chunk("tRNS", "?") + chunk("zTXt", "garbage"))).sum, 0U);
}

TEST("raw pixels are taken as they are said to be") {
  std::string rgb;
  for (int pixel = 0; pixel < 9 * 8; ++pixel) rgb += "\x01\x02\x04";
  CHECK_EQUAL(decode(rgb, camera_ai::IMAGE_FORMAT_RGB24, 9, 8).sum, 9U * 8 * 7);
  CHECK_EQUAL(decode(rgb, camera_ai::IMAGE_FORMAT_BGR24, 9, 8).sum, 9U * 8 * 7);
  CHECK_EQUAL(decode(rgb, camera_ai::IMAGE_FORMAT_GRAY8, 9, 24).sum, 9U * 8 * 7 * 3);
  CHECK_THROWS(BadImage, "= 240", decode(rgb, camera_ai::IMAGE_FORMAT_RGB24, 10, 8));
  CHECK_THROWS(BadImage, "= 72", decode(rgb, camera_ai::IMAGE_FORMAT_GRAY8, 9, 8));
  CHECK_THROWS(BadImage, "0 x 0", decode(rgb, camera_ai::IMAGE_FORMAT_RGB24));
  CHECK_THROWS(TooLarge, "4294967295 x 4294967295", decode(rgb, camera_ai::IMAGE_FORMAT_RGB24, -1, -1));
}

TEST("what is no picture, or another than it is said to be, is refused by its first bytes") {
  CHECK_THROWS(BadImage, "found no bytes, expected JPEG or PNG", decode(""));
  CHECK_THROWS(BadImage, "begin 47 49 46 38 39 61, expected JPEG or PNG", decode("GIF89a"));
  CHECK_THROWS(BadImage, "expected PNG", decode(jpeg(8, 8), camera_ai::IMAGE_FORMAT_PNG));
  CHECK_THROWS(BadImage, "expected JPEG", decode(png(kRows), camera_ai::IMAGE_FORMAT_JPEG));
  CHECK_THROWS(BadImage, "does not know", decode(jpeg(8, 8), 77));
}
