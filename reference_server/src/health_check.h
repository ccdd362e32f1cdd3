// One unary health check of the asynchronous server.
#pragma once

#include <grpcpp/grpcpp.h>

#include "event.h"
#include "health.h"
#include "live_calls.h"

namespace reference {

// Destroys itself when it is answered.
class HealthCheck {
 public:
  // Waits for the next one.
  HealthCheck(grpc::health::v1::Health::AsyncService& service, grpc::ServerCompletionQueue* queue,
              const HealthState& state, LiveCalls& calls)
      : service_(service), queue_(queue), state_(state), calls_(calls) {
    calls_.arrive();
    service_.RequestCheck(&context_, &request_, &responder_, queue_, queue_, &begun_);
  }

 private:
  ~HealthCheck() { calls_.leave(); }

  void on_begun(bool ok, FrameWorker&) {
    if (!ok) {  // The server has ended, and no call came.
      delete this;
      return;
    }
    new HealthCheck(service_, queue_, state_, calls_);
    const HealthCheckResponse response = state_.of(request_.service());
    if (response.status() == HealthCheckResponse::SERVICE_UNKNOWN) {
      responder_.FinishWithError({grpc::StatusCode::NOT_FOUND, "unknown service"}, &answered_);
    } else {
      responder_.Finish(response, grpc::Status::OK, &answered_);
    }
  }

  void on_answered(bool, FrameWorker&) { delete this; }

  grpc::health::v1::Health::AsyncService& service_;
  grpc::ServerCompletionQueue* const queue_;
  const HealthState& state_;
  LiveCalls& calls_;
  grpc::ServerContext context_;
  grpc::health::v1::HealthCheckRequest request_;
  grpc::ServerAsyncResponseWriter<HealthCheckResponse> responder_{&context_};
  EventOf<HealthCheck> begun_{this, &HealthCheck::on_begun};
  EventOf<HealthCheck> answered_{this, &HealthCheck::on_answered};
};

}  // namespace reference
