// What the standard health service says of this server.
#pragma once

#include <atomic>
#include <string>

#include "camera_ai/detection.grpc.pb.h"
#include "health.grpc.pb.h"

namespace reference {

using HealthCheckResponse = grpc::health::v1::HealthCheckResponse;

class HealthState {
 public:
  void stop_serving() { serving_ = false; }

  HealthCheckResponse of(const std::string& service) const {
    HealthCheckResponse response;
    if (!service.empty() && service != camera_ai::ObjectDetection::service_full_name()) {
      response.set_status(HealthCheckResponse::SERVICE_UNKNOWN);
    } else {
      response.set_status(serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
    }
    return response;
  }

 private:
  std::atomic<bool> serving_{true};
};

}  // namespace reference
