#include "frame_worker.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "coco_ssd.h"
#include "errors.h"
#include "simulated.h"

namespace reference {
namespace {

using std::chrono::steady_clock;
using Requests = grpc::SerializationTraits<camera_ai::DetectRequest>;
using Responses = grpc::SerializationTraits<camera_ai::DetectResponse>;

// A fault that repeats with every frame is told once in this time.
constexpr std::chrono::seconds kLogPeriod{60};

// Half to even, as everybody rounds by default.
int whole(float edge) { return static_cast<int>(std::nearbyint(edge)); }

}  // namespace

FrameWorker::FrameWorker(std::unique_ptr<Detector> detector, const Options& options)
    : detector_(std::move(detector)),
      max_image_bytes_(options.max_image_bytes),
      decoder_(options.max_image_pixels) {}

bool FrameWorker::answer(grpc::ByteBuffer* request, const Query& query, grpc::ByteBuffer* response) {
  const bool parsed = Requests::Deserialize(request, &request_).ok();
  request->Clear();
  if (!parsed) return false;
  response_.Clear();
  response_.set_frame_id(request_.frame_id());
  const auto begun = steady_clock::now();
  try {
    work(query);
  } catch (const TooLarge& error) {
    refuse(camera_ai::OUTCOME_TOO_LARGE, error.what());
  } catch (const BadImage& error) {
    refuse(camera_ai::OUTCOME_BAD_IMAGE, error.what());
  } catch (const std::exception& error) {
    refuse(camera_ai::OUTCOME_INTERNAL_ERROR, "the detector failed");
    log_failure(error.what());
  }
  response_.set_work_ms(std::chrono::duration<float, std::milli>(steady_clock::now() - begun).count());
  bool own_buffer = false;
  return Responses::Serialize(response_, response, &own_buffer).ok();
}

void FrameWorker::work(const Query& query) {
  const std::string& data = request_.image_data();
  if (data.size() > max_image_bytes_) {
    throw TooLarge("found " + std::to_string(data.size()) + " bytes of image, expected at most " +
                   std::to_string(max_image_bytes_));
  }
  const Image image = detector_->input_wh() ? decoder_.decode(request_) : Image{};
  write_objects(detector_->detect(image, query));
  response_.set_outcome(camera_ai::OUTCOME_DETECTED);
}

void FrameWorker::refuse(camera_ai::Outcome outcome, const char* detail) {
  response_.clear_objects();
  response_.set_outcome(outcome);
  response_.set_detail(detail);
}

void FrameWorker::write_objects(const std::vector<Detection>& detections) {
  for (const Detection& found : detections) {
    camera_ai::Object* object = response_.add_objects();
    object->set_label(detector_->labels()[found.class_id]);
    object->set_confidence(found.score);
    camera_ai::BoundingBox* box = object->mutable_bbox();
    box->set_x(whole(found.x1));
    box->set_y(whole(found.y1));
    box->set_width(whole(found.x2) - box->x());
    box->set_height(whole(found.y2) - box->y());
  }
}

void FrameWorker::log_failure(const char* problem) {
  const auto now = steady_clock::now();
  if (logged_ != steady_clock::time_point{} && now - logged_ < kLogPeriod) return;
  logged_ = now;
  std::fprintf(stderr, "reference-server: the detector failed on frame %llu: %s\n",
               static_cast<unsigned long long>(request_.frame_id()), problem);
}

std::vector<std::unique_ptr<FrameWorker>> make_workers(const Options& options, int count) {
  std::vector<std::unique_ptr<FrameWorker>> workers;
  const auto files = options.detector.simulated ? nullptr : read_coco_ssd_files(options.model_dir);
  while (static_cast<int>(workers.size()) < count) {
    std::unique_ptr<Detector> detector;
    if (options.detector.simulated) {
      detector = std::make_unique<Simulated>(options.detector.work_ms, options.detector.clock);
    } else {
      detector = make_coco_ssd(files);
    }
    workers.push_back(std::make_unique<FrameWorker>(std::move(detector), options));
  }
  return workers;
}

}  // namespace reference
