// Work of a known length instead of a model, and one fixed answer.
#pragma once

#include "detector.h"
#include "options.h"

namespace reference {

class Simulated : public Detector {
 public:
  Simulated(double work_ms, Clock clock);
  const std::vector<std::string>& labels() const override { return labels_; }
  std::optional<std::pair<int, int>> input_wh() const override { return std::nullopt; }
  // Is busy until the calling thread has used its milliseconds of processor time, or until they have passed.
  std::vector<Detection> detect(const Image& image, const Query& query) override;

 private:
  const std::vector<std::string> labels_{"person"};
  const std::int64_t work_ns_;
  const int clock_;
};

}  // namespace reference
