// One worker's tools: a detector, and the buffers that its frames pass through.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <memory>
#include <vector>

#include "camera_ai/detection.pb.h"
#include "detector.h"
#include "image.h"
#include "options.h"

namespace reference {

// Used by one thread at a time.
class FrameWorker {
 public:
  FrameWorker(std::unique_ptr<Detector> detector, const Options& options);

  const Detector& detector() const { return *detector_; }
  // Takes a DetectRequest's bytes and gives the DetectResponse's; whatever is wrong with the frame is an
  // outcome. False when the bytes are no DetectRequest. `request` is emptied.
  bool answer(grpc::ByteBuffer* request, const Query& query, grpc::ByteBuffer* response);

 private:
  void work(const Query& query);
  void refuse(camera_ai::Outcome outcome, const char* detail);
  void write_objects(const std::vector<Detection>& detections);
  void log_failure(const char* problem);

  const std::unique_ptr<Detector> detector_;
  const std::size_t max_image_bytes_;
  ImageDecoder decoder_;
  // Kept from frame to frame, so that their memory is.
  camera_ai::DetectRequest request_;
  camera_ai::DetectResponse response_;
  std::chrono::steady_clock::time_point logged_{};
};

// Loads as many workers as said, each with a detector of its own. Throws DetectorError.
std::vector<std::unique_ptr<FrameWorker>> make_workers(const Options& options, int count);

}  // namespace reference
