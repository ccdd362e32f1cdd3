#include "png_file.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <opencv2/imgcodecs.hpp>

#include "errors.h"

namespace reference {
namespace {

constexpr std::size_t kStartBytes = 8;
constexpr std::uint32_t kMaxSidePx = 1'000'000;
constexpr int kMaxSteps = 10'000;
constexpr std::size_t kHeaderBytes = 13;
constexpr int kPalette = 3;
constexpr std::size_t kOutputStep = 256 << 10;
constexpr std::size_t kIdatStep = 1 << 20;

std::uint32_t number_at(std::string_view data, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(data[at + i]);
  return value;
}

std::string number(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

// The checksum of a chunk: over its kind and its body.
std::uint32_t checksum(std::string_view kind_and_body) {
  return crc32(0, reinterpret_cast<const Bytef*>(kind_and_body.data()), kind_and_body.size());
}

// One chunk of a file; its kind is empty at the end of what can be read.
struct Chunk {
  std::string_view kind;
  std::string_view body;
};

class Chunks {
 public:
  explicit Chunks(std::string_view file) : file_(file) {}

  Chunk next() {
    if (++steps_ > kMaxSteps || at_ + 12 > file_.size()) return {};
    const std::size_t length = number_at(file_, at_);
    if (length > file_.size() - at_ - 12) return {};
    const std::string_view kind_and_body = file_.substr(at_ + 4, 4 + length);
    if (checksum(kind_and_body) != number_at(file_, at_ + 8 + length)) {
      throw BadImage("found a PNG whose chunk at byte " + std::to_string(at_) + " is damaged");
    }
    at_ += 12 + length;
    return {kind_and_body.substr(0, 4), kind_and_body.substr(4)};
  }

 private:
  const std::string_view file_;
  std::size_t at_ = kStartBytes;
  int steps_ = 0;
};

int channels_of(int colour_type) {
  switch (colour_type) {
    case 0:
    case kPalette:
      return 1;
    case 2:
      return 3;
    case 4:
      return 2;
    case 6:
      return 4;
    default:
      return 0;
  }
}

bool is_standard(int colour_type, int bits) {
  const bool power_of_two = bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16;
  if (channels_of(colour_type) == 0 || !power_of_two) return false;
  if (colour_type == 0) return true;
  return colour_type == kPalette ? bits <= 8 : bits >= 8;
}

PngFile read_header(std::string_view header, std::string palette, std::string data) {
  PngFile png{number_at(header, 0), number_at(header, 4), header[8],      header[9],
              header[12] == 1,      std::move(palette),   std::move(data)};
  if (!is_standard(png.colour_type, png.bits) || header[10] != 0 || header[11] != 0 ||
      static_cast<unsigned char>(header[12]) > 1) {
    throw BadImage("found a PNG with " + std::to_string(png.bits) + " bits, colour type " +
                   std::to_string(png.colour_type) + ", compression, filter or interlace " +
                   "that the standard does not have");
  }
  const std::size_t most = 3U << png.bits;
  if (png.colour_type == kPalette &&
      (png.palette.empty() || png.palette.size() % 3 != 0 || png.palette.size() > most)) {
    throw BadImage("found a PNG with " + std::to_string(png.palette.size()) +
                   " bytes of palette, expected 3 to " + std::to_string(most) + ", 3 for each colour");
  }
  if (std::max(png.width, png.height) > kMaxSidePx) {
    throw TooLarge("found a PNG of " + std::to_string(png.width) + " x " + std::to_string(png.height) +
                   ", expected at most " + std::to_string(kMaxSidePx) + " a side");
  }
  return png;
}

// Follows the rows of a picture, of each pass where it is interlaced, through its inflated data.
class Rows {
 public:
  explicit Rows(const PngFile& png) : png_(png) { next_pass(); }

  bool complete() const { return rows_left_ == 0; }

  // Takes the next bytes. Throws BadImage when there are too many, or one is a filter that does not exist.
  void take(const std::uint8_t* bytes, std::size_t count) {
    while (count > 0) {
      if (complete()) throw BadImage("found a PNG that has too many rows");
      if (at_ == 0 && *bytes > 4) throw BadImage("found a PNG with a row filter above 4, expected 0 to 4");
      const std::size_t step = std::min(count, row_bytes_ - at_);
      bytes += step;
      count -= step;
      at_ += step;
      if (at_ == row_bytes_) {
        at_ = 0;
        if (--rows_left_ == 0) next_pass();
      }
    }
  }

 private:
  struct Pass {
    std::uint32_t x, y, step_x, step_y;
  };

  void next_pass() {
    // Adam7, or one pass over everything.
    static constexpr Pass kInterlaced[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                           {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
    static constexpr Pass kWhole[] = {{0, 0, 1, 1}};
    const Pass* passes = png_.interlaced ? kInterlaced : kWhole;
    const int count = png_.interlaced ? 7 : 1;
    while (rows_left_ == 0 && pass_ < count) {
      const Pass& pass = passes[pass_++];
      if (png_.width <= pass.x || png_.height <= pass.y) continue;
      const std::size_t columns = (png_.width - pass.x + pass.step_x - 1) / pass.step_x;
      rows_left_ = (png_.height - pass.y + pass.step_y - 1) / pass.step_y;
      row_bytes_ = 1 + (columns * channels_of(png_.colour_type) * png_.bits + 7) / 8;
    }
  }

  const PngFile& png_;
  int pass_ = 0;
  std::size_t rows_left_ = 0;
  std::size_t row_bytes_ = 0;
  std::size_t at_ = 0;
};

// zlib's state, given back whatever happens.
struct Inflation {
  Inflation() {
    if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  }
  ~Inflation() { inflateEnd(&stream); }
  z_stream stream{};
};

void append_chunk(std::string* file, const std::string& kind, std::string_view body) {
  *file += number(body.size());
  const std::size_t at = file->size();
  *file += kind;
  *file += body;
  *file += number(checksum(std::string_view(*file).substr(at)));
}

// Writes the file anew, for a decoder that then finds nothing to complain of.
std::string to_plain(const PngFile& png) {
  std::string file("\x89PNG\r\n\x1a\n", kStartBytes);
  const char rest[] = {static_cast<char>(png.bits), static_cast<char>(png.colour_type), 0, 0, png.interlaced};
  append_chunk(&file, "IHDR", number(png.width) + number(png.height) + std::string(rest, sizeof rest));
  if (png.colour_type == kPalette) {
    // No pixel can point beyond it.
    std::string palette = png.palette;
    palette.resize(3U << png.bits, '\0');
    append_chunk(&file, "PLTE", palette);
  }
  // With the largest window: a smaller one than the data needs would be found out by some decoders only.
  const std::string data = "\x78\x01" + png.data.substr(2);
  for (std::size_t at = 0; at < data.size(); at += kIdatStep) {
    append_chunk(&file, "IDAT", std::string_view(data).substr(at, kIdatStep));
  }
  append_chunk(&file, "IEND", "");
  return file;
}

// Inflates the data once, and follows its rows.
void check_data(const PngFile& png) {
  Rows rows(png);
  Inflation inflation;
  z_stream& stream = inflation.stream;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(png.data.data()));
  stream.avail_in = png.data.size();
  std::vector<std::uint8_t> block(kOutputStep);
  int state = Z_OK;
  while (state == Z_OK) {
    stream.next_out = block.data();
    stream.avail_out = block.size();
    state = inflate(&stream, Z_NO_FLUSH);
    rows.take(block.data(), block.size() - stream.avail_out);
  }
  if (state != Z_STREAM_END || stream.avail_in != 0) {
    throw BadImage(std::string("found a PNG whose data is damaged, has no end, or bytes behind it: ") +
                   (stream.msg != nullptr ? stream.msg : zError(state)));
  }
  if (!rows.complete()) throw BadImage("found a PNG that has too few rows");
}

}  // namespace

PngFile read_png(std::string_view file) {
  std::string header, palette, data;
  bool has_data = false;
  Chunks chunks(file);
  for (Chunk chunk = chunks.next(); !chunk.kind.empty(); chunk = chunks.next()) {
    if (header.empty()) {
      if (chunk.kind != "IHDR" || chunk.body.size() != kHeaderBytes) {
        throw BadImage("found a PNG that does not begin with a chunk IHDR of 13 bytes");
      }
      header = chunk.body;
    } else if (chunk.kind == "IDAT") {
      data += chunk.body;
      has_data = true;
    } else if (chunk.kind == "PLTE" && palette.empty() && !has_data) {
      palette = chunk.body;
    } else if (chunk.kind == "IEND") {
      return read_header(header, std::move(palette), std::move(data));
    } else if (chunk.kind[0] >= 'A' && chunk.kind[0] <= 'Z') {
      throw BadImage("found a PNG with a critical chunk where it does not belong");
    }
  }
  throw BadImage("found a PNG of " + std::to_string(file.size()) + " bytes without its end within " +
                 std::to_string(kMaxSteps) + " chunks");
}

void decode_png(const PngFile& png, std::vector<std::uint8_t>* rgb) {
  check_data(png);
  std::string file = to_plain(png);
  cv::Mat bgr;
  try {
    const cv::Mat bytes(1, static_cast<int>(file.size()), CV_8UC1, file.data());
    bgr = cv::imdecode(bytes, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  } catch (const cv::Exception& error) {
    throw BadImage("found a PNG that does not decode: " + error.err);
  }
  if (bgr.empty() || bgr.type() != CV_8UC3 || bgr.rows != static_cast<int>(png.height) ||
      bgr.cols != static_cast<int>(png.width)) {
    throw BadImage("found a damaged PNG of " + std::to_string(png.width) + " x " +
                   std::to_string(png.height));
  }
  const std::uint8_t* from = bgr.ptr();
  rgb->resize(bgr.total() * 3);
  for (std::size_t at = 0; at < rgb->size(); at += 3) {
    (*rgb)[at] = from[at + 2];
    (*rgb)[at + 1] = from[at + 1];
    (*rgb)[at + 2] = from[at];
  }
}

}  // namespace reference
