// The asynchronous server: one completion queue that the workers drain, each working on what it takes.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "camera_ai/control.grpc.pb.h"
#include "camera_ai/detection.grpc.pb.h"
#include "event.h"
#include "health.h"
#include "live_calls.h"
#include "meeting.h"
#include "server.h"
#include "streams.h"
#include "watch_call.h"
#include "wishes.h"

namespace reference {

class AsyncServer : public Server {
 public:
  // Requests and answers of DetectStream are bytes here: the worker that takes a request parses it into a
  // message of its own, and bytes that are no request can be told from the end of a call.
  using Detection =
      camera_ai::ObjectDetection::WithRawMethod_DetectStream<camera_ai::ObjectDetection::Service>;

  explicit AsyncServer(const Options& options);
  ~AsyncServer() override;

  int start() override;
  bool drain() override;

  // For the calls.
  Detection& detection() { return detection_; }
  grpc::ServerCompletionQueue* queue() { return queue_.get(); }
  LiveCalls& calls() { return calls_; }
  Streams& streams() { return streams_; }
  const Facts& facts() const { return facts_; }
  const std::vector<std::string>& labels() const { return workers_.front()->detector().labels(); }

 private:
  void run(FrameWorker& worker);
  void await_watches();
  void on_reads_passed(bool ok, FrameWorker& worker);

  const Options options_;
  std::vector<std::unique_ptr<FrameWorker>> workers_;
  Facts facts_;
  Streams streams_;
  HealthState health_state_;
  LiveCalls calls_;
  Detection detection_;
  camera_ai::Control::AsyncService control_;
  grpc::health::v1::Health::AsyncService health_;
  Watchers agents_;
  WatchKind<camera_ai::WatchRequest, camera_ai::Wish> agents_kind_;
  Watchers health_watches_;
  WatchKind<grpc::health::v1::HealthCheckRequest, HealthCheckResponse> health_kind_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  // The queue is first-in first-out, and a worker that takes this event has handled all that it took before:
  // once each has taken one, every read that was done when the drain began has been handled.
  EventOf<AsyncServer> reads_passed_{this, &AsyncServer::on_reads_passed};
  Meeting meeting_;
  std::vector<grpc::Alarm> drain_alarms_;
  std::vector<std::thread> threads_;
};

}  // namespace reference
