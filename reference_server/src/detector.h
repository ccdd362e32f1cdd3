// What a detector is: one image in, objects out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reference {

// Pixels: R G B, rows from the top, no padding; width x height x 3 bytes. They belong to somebody else.
struct Image {
  const std::uint8_t* rgb = nullptr;
  int width = 0;
  int height = 0;
};

// What one call wants to be told of.
struct Query {
  float min_score = 0.5F;
  // By class id, 1 for wanted; empty for all.
  std::vector<std::uint8_t> class_mask;
};

// One object: edges in continuous pixels of the image, x1 <= x2 and y1 <= y2; score 0 to 1.
struct Detection {
  float x1, y1, x2, y2;
  float score;
  int class_id;
};

// Only ever used by one thread at a time, so it may keep buffers.
class Detector {
 public:
  virtual ~Detector() = default;
  // By class id; an empty one is a class without a name, never answered.
  virtual const std::vector<std::string>& labels() const = 0;
  // Width and height of the model's input; none for a detector that looks at no pixels.
  virtual std::optional<std::pair<int, int>> input_wh() const = 0;
  // By score descending; what the query does not want is left out.
  virtual std::vector<Detection> detect(const Image& image, const Query& query) = 0;
};

}  // namespace reference
