// The command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "address.h"

namespace reference {

enum class Mode { kAsync, kSync };

// Which clock a simulated frame's work is measured by.
enum class Clock { kThreadCpu, kWall };

struct DetectorChoice {
  // coco-ssd when false.
  bool simulated = false;
  double work_ms = 0;
  Clock clock = Clock::kThreadCpu;

  // As the facts name it, e.g. simulated:5 or simulated:5,wall.
  std::string name() const;
};

struct Options {
  Address listen;
  Mode mode = Mode::kAsync;
  int workers = 1;
  DetectorChoice detector;
  std::filesystem::path model_dir;
  std::int64_t max_image_bytes = 4 << 20;
  std::int64_t max_image_pixels = 4096 * 4096;
  int max_streams = 256;
  // Announced to clients; nothing is dropped by it.
  int max_age_ms = 1000;
  bool insecure = false;
  bool help = false;
};

extern const char* const kUsage;

// Reads the arguments after the program's name. Throws OptionError with one line.
Options parse_options(const std::vector<std::string>& arguments);

}  // namespace reference
