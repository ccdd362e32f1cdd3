// The files beside a model: its anchors and its labels.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "boxes.h"

namespace reference {

// Reads a .npy file of float32 (n, 4), C order: ymin, xmin, ymax, xmax. Throws DetectorError.
std::vector<Anchor> read_anchors(const std::filesystem::path& path);

// Reads labels, one a line, the first for class 0; an empty line is a class without a name. Throws
// DetectorError.
std::vector<std::string> read_labels(const std::filesystem::path& path);

}  // namespace reference
