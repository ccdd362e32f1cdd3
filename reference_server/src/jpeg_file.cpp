#include "jpeg_file.h"

#include <turbojpeg.h>

#include <cstdio>
#include <new>
#include <string>

#include "errors.h"

namespace reference {
namespace {

// A picture has tens of segments, and a progressive one about ten scans. Each scan costs a pass over all
// pixels, however few bytes it has.
constexpr int kMaxSteps = 10'000;
constexpr int kMaxScans = 100;

constexpr int kStartOfScan = 0xDA;

int byte_at(std::string_view data, std::size_t at) { return static_cast<unsigned char>(data[at]); }

int word_at(std::string_view data, std::size_t at) { return byte_at(data, at) << 8 | byte_at(data, at + 1); }

std::string hex(int value) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", value);
  return text;
}

// TEM and RST0 to RST7 stand alone, without a length.
bool is_bare(int marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7); }

// C0 to CF but for DHT, JPG and DAC.
bool is_start_of_frame(int marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// DHT, DQT, DRI, APP0 to APP15 and COM: what libjpeg takes before the picture. What it takes otherwise than
// this walk could hide another size from it.
bool is_skipped(int marker) {
  return marker == 0xC4 || marker == 0xDB || marker == 0xDD || (marker >= 0xE0 && marker <= 0xEF) ||
         marker == 0xFE;
}

void check_scans(std::string_view data) {
  int scans = 0;
  for (std::size_t at = data.find("\xff\xda"); at != std::string_view::npos;
       at = data.find("\xff\xda", at + 2)) {
    ++scans;
  }
  if (scans > kMaxScans) {
    throw BadImage("found a JPEG of " + std::to_string(scans) + " scans, expected at most " +
                   std::to_string(kMaxScans));
  }
}

JpegHeader read_start_of_frame(std::string_view data, std::size_t at, int marker) {
  if (marker > 0xC2) {
    throw BadImage(
        "found a JPEG with start of frame " + hex(marker) +
        " (lossless, hierarchical or arithmetic coding), expected baseline, extended or progressive");
  }
  if (at + 10 > data.size()) {
    throw BadImage("found a JPEG that ends in its start of frame, after " + std::to_string(data.size()) +
                   " bytes");
  }
  const int length = word_at(data, at + 2);
  const int channels = byte_at(data, at + 9);
  if (length != 8 + 3 * channels) {
    throw BadImage("found a JPEG of " + std::to_string(channels) + " channels with a start of frame of " +
                   std::to_string(length) + " bytes");
  }
  return {word_at(data, at + 7), word_at(data, at + 5), byte_at(data, at + 4), channels};
}

std::string size_text(const JpegHeader& header) {
  return std::to_string(header.width) + " x " + std::to_string(header.height);
}

// libjpeg-turbo's state. One for each picture: a broken one leaves it in the midst of a header.
struct Turbo {
  Turbo() : handle(tjInitDecompress()) {
    if (handle == nullptr) throw std::bad_alloc();
  }
  Turbo(const Turbo&) = delete;
  Turbo& operator=(const Turbo&) = delete;
  ~Turbo() { tjDestroy(handle); }
  void* const handle;
};

void read_pixels(std::string_view data, const JpegHeader& header, int format,
                 std::vector<std::uint8_t>* pixels) {
  const Turbo turbo;
  const auto* bytes = reinterpret_cast<const unsigned char*>(data.data());
  int width = 0;
  int height = 0;
  int sampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(turbo.handle, bytes, data.size(), &width, &height, &sampling, &colours) != 0) {
    throw BadImage("found a JPEG of " + size_text(header) +
                   " that is not decoded: " + tjGetErrorStr2(turbo.handle));
  }
  // The decoder's own idea of the size, before anything is allocated by it.
  if (width != header.width || height != header.height) {
    throw BadImage("found a JPEG of " + size_text(header) + " that decodes to " + std::to_string(width) +
                   " x " + std::to_string(height));
  }
  pixels->resize(static_cast<std::size_t>(width) * height * tjPixelSize[format]);
  if (tjDecompress2(turbo.handle, bytes, data.size(), pixels->data(), width, 0, height, format,
                    TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING) != 0) {
    throw BadImage("found a damaged JPEG of " + size_text(header) + ": " + tjGetErrorStr2(turbo.handle));
  }
}

}  // namespace

JpegHeader read_jpeg_header(std::string_view data) {
  check_scans(data);
  JpegHeader header{};
  bool framed = false;
  std::size_t at = 2;
  for (int step = 0; step < kMaxSteps && at + 4 <= data.size(); ++step) {
    if (byte_at(data, at) != 0xFF) {
      throw BadImage("found " + hex(byte_at(data, at)) + " at byte " + std::to_string(at) +
                     " of a JPEG, expected a marker");
    }
    const int marker = byte_at(data, at + 1);
    if (marker == 0xFF || is_bare(marker)) {
      at += marker == 0xFF ? 1 : 2;
      continue;
    }
    if (marker == kStartOfScan && framed) return header;
    const int length = word_at(data, at + 2);
    if (is_start_of_frame(marker) && !framed) {
      header = read_start_of_frame(data, at, marker);
      framed = true;
    } else if (!is_skipped(marker) || length < 2) {
      throw BadImage("found marker " + hex(marker) + " with length " + std::to_string(length) + " at byte " +
                     std::to_string(at) + " of a JPEG, which does not belong there");
    }
    at += 2 + length;
  }
  throw BadImage("found a JPEG of " + std::to_string(data.size()) +
                 " bytes without start of frame and scan within " + std::to_string(kMaxSteps) + " markers");
}

void decode_jpeg(std::string_view data, const JpegHeader& header, std::vector<std::uint8_t>* rgb) {
  if (header.bits != 8) {
    throw BadImage("found a JPEG of " + std::to_string(header.bits) + " bits a sample, expected 8");
  }
  if (header.channels != 4) {
    read_pixels(data, header, TJPF_RGB, rgb);
    return;
  }
  std::vector<std::uint8_t> cmyk;
  read_pixels(data, header, TJPF_CMYK, &cmyk);
  const std::size_t pixels = cmyk.size() / 4;
  rgb->resize(pixels * 3);
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    const unsigned black = cmyk[pixel * 4 + 3];
    for (std::size_t channel = 0; channel < 3; ++channel) {
      // The nearest: no quotient lies in the middle, for 255 is odd.
      (*rgb)[pixel * 3 + channel] =
          static_cast<std::uint8_t>((cmyk[pixel * 4 + channel] * black + 127) / 255);
    }
  }
}

}  // namespace reference
