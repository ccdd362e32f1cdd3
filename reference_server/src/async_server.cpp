#include "async_server.h"

#include "detect_call.h"
#include "drain_wish.h"
#include "errors.h"
#include "health_check.h"

namespace reference {

using std::chrono::steady_clock;

AsyncServer::AsyncServer(const Options& options)
    : options_(options),
      streams_(options.max_streams),
      agents_(options.max_streams + kSpareWatches),
      health_watches_(kMaxHealthWatches),
      meeting_(options.workers),
      drain_alarms_(options.workers) {}

AsyncServer::~AsyncServer() = default;

int AsyncServer::start() {
  workers_ = make_workers(options_, options_.workers);
  facts_ = make_facts(options_, workers_.front()->detector());
  grpc::ServerBuilder builder;
  int port = 0;
  configure(builder, options_, &port);
  builder.RegisterService(&detection_);
  builder.RegisterService(&control_);
  builder.RegisterService(&health_);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (!server_ || port == 0) throw ListenError("--listen " + options_.listen.text() + ": cannot listen");
  await_watches();
  new DetectCall(*this);
  new HealthCheck(health_, queue_.get(), health_state_, calls_);
  for (const auto& worker : workers_) threads_.emplace_back([this, &worker] { run(*worker); });
  return port;
}

bool AsyncServer::drain() {
  health_state_.stop_serving();
  agents_.tell_all();
  health_watches_.tell_all();
  streams_.start_draining();
  for (grpc::Alarm& alarm : drain_alarms_) {
    alarm.Set(queue_.get(), gpr_now(GPR_CLOCK_MONOTONIC), &reads_passed_);
  }
  streams_.wait_empty(steady_clock::now() + kDrainGrace);
  server_->Shutdown(std::chrono::system_clock::now() + kCloseGrace);
  // From here on every call has been cancelled, and ends by itself unless a worker is still busy with it.
  if (!calls_.wait_none(steady_clock::now() + kCloseGrace)) return false;
  queue_->Shutdown();
  for (std::thread& thread : threads_) thread.join();
  return true;
}

void AsyncServer::run(FrameWorker& worker) {
  void* event = nullptr;
  for (bool ok = false; queue_->Next(&event, &ok);) static_cast<Event*>(event)->happened(ok, worker);
}

void AsyncServer::on_reads_passed(bool, FrameWorker&) {
  if (meeting_.come()) streams_.end_all();
}

void AsyncServer::await_watches() {
  agents_kind_.await = [this](auto* context, auto* request, auto* writer, Event* event) {
    control_.RequestWatch(context, request, writer, queue_.get(), queue_.get(), event);
  };
  agents_kind_.first = [](const auto&) { return std::nullopt; };
  agents_kind_.last = [](const auto&) { return drain_wish(); };
  agents_kind_.too_many = "over capacity: too many agents watch";
  agents_kind_.end = grpc::Status::OK;
  agents_kind_.watchers = &agents_;
  agents_kind_.calls = &calls_;
  new WatchCall(agents_kind_);

  health_kind_.await = [this](auto* context, auto* request, auto* writer, Event* event) {
    health_.RequestWatch(context, request, writer, queue_.get(), queue_.get(), event);
  };
  health_kind_.first = [this](const auto& request) { return health_state_.of(request.service()); };
  health_kind_.last = [this](const auto& request) { return health_state_.of(request.service()); };
  health_kind_.too_many = "over capacity: too many health checks watch";
  health_kind_.end = Streams::draining_status();
  health_kind_.watchers = &health_watches_;
  health_kind_.calls = &calls_;
  new WatchCall(health_kind_);
}

}  // namespace reference
