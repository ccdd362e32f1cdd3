// The SSDLite MobileNetV2 that comes with the project, run by OpenCV.
#pragma once

#include <filesystem>
#include <memory>

#include "boxes.h"
#include "detector.h"

namespace reference {

// What the nets of all workers have in common.
struct CocoSsdFiles {
  std::filesystem::path model;
  std::vector<Anchor> anchors;
  std::vector<std::string> labels;
};

// Throws DetectorError.
std::shared_ptr<const CocoSsdFiles> read_coco_ssd_files(const std::filesystem::path& folder);

// Loads a net and tries it once. Throws DetectorError when it does not fit anchors and labels.
std::unique_ptr<Detector> make_coco_ssd(std::shared_ptr<const CocoSsdFiles> files);

}  // namespace reference
