#include "sync_server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/support/method_handler.h>

#include <stdexcept>
#include <thread>

#include "camera_ai/control.grpc.pb.h"
#include "drain_wish.h"
#include "errors.h"
#include "health.h"
#include "live_calls.h"
#include "streams.h"
#include "wishes.h"
#include "worker_pool.h"

namespace reference {
namespace {

using std::chrono::steady_clock;
using Bytes = grpc::ByteBuffer;

// How often a call that only waits looks whether its client is still there.
constexpr std::chrono::milliseconds kLookPeriod{100};
// For a call that has just read a frame to take it in hand: until then it looks like one that waits for a frame.
constexpr std::chrono::milliseconds kReadGrace{100};
// Threads for new calls and for refusing those that are too many.
constexpr int kSpareThreads = 16;

// What all calls share.
struct Shared {
  explicit Shared(const Options& options, std::vector<std::unique_ptr<FrameWorker>> workers)
      : pool(std::move(workers)), facts(make_facts(options, pool.detector())), streams(options.max_streams) {}

  WorkerPool pool;
  const Facts facts;
  Streams streams;
  // Frames that were read and are not answered yet.
  LiveCalls frames_in_hand;
  HealthState health;
};

class InHand {
 public:
  explicit InHand(LiveCalls& calls) : calls_(calls) { calls_.arrive(); }
  InHand(const InHand&) = delete;
  InHand& operator=(const InHand&) = delete;
  ~InHand() { calls_.leave(); }

 private:
  LiveCalls& calls_;
};

// One call's place. A blocked read cannot be ended with a status: a silent call keeps its place here, and
// ends when the server closes its connection.
class Place : public OpenStream {
 public:
  explicit Place(Streams& streams) : streams_(streams), refusal_(streams.enter(this, &id_)) {}
  ~Place() override {
    if (refusal_.ok()) streams_.leave(id_);
  }
  const grpc::Status& refusal() const { return refusal_; }
  bool has_begun() const override { return true; }
  void end(const grpc::Status&) override {}

 private:
  Streams& streams_;
  Streams::Id id_ = 0;
  const grpc::Status refusal_;
};

// DetectStream with bytes, which gRPC generates for asynchronous servers only: bytes that are no request can
// be told from the end of a call.
class Detection : public grpc::Service {
 public:
  using Stream = grpc::ServerReaderWriter<Bytes, Bytes>;

  explicit Detection(Shared& shared) : shared_(shared) {
    AddMethod(new grpc::internal::RpcServiceMethod(
        "/camera_ai.ObjectDetection/DetectStream", grpc::internal::RpcMethod::BIDI_STREAMING,
        new grpc::internal::BidiStreamingHandler<Detection, Bytes, Bytes>(
            [](Detection* self, grpc::ServerContext* context, Stream* stream) {
              return self->detect(*context, *stream);
            },
            this)));
  }

 private:
  grpc::Status detect(grpc::ServerContext& context, Stream& stream) {
    const Place place(shared_.streams);
    if (!place.refusal().ok()) return place.refusal();
    Query query;
    try {
      query = parse_wishes(context.client_metadata(), shared_.pool.detector().labels());
    } catch (const std::invalid_argument& error) {
      return {grpc::StatusCode::INVALID_ARGUMENT, error.what()};
    }
    for (const auto& [key, value] : shared_.facts) context.AddInitialMetadata(key, value);
    stream.SendInitialMetadata();
    for (Bytes request; !shared_.streams.draining();) {
      if (!stream.Read(&request)) return grpc::Status::OK;
      const InHand in_hand(shared_.frames_in_hand);
      Bytes response;
      if (!shared_.pool.borrow()->answer(&request, query, &response)) {
        return {grpc::StatusCode::INVALID_ARGUMENT, "found bytes that are no DetectRequest"};
      }
      if (!stream.Write(response)) return grpc::Status::CANCELLED;
    }
    return Streams::draining_status();
  }

  Shared& shared_;
};

// Calls of one kind that stay open until the server drains.
class OpenWatches {
 public:
  OpenWatches(Streams& streams, int most) : streams_(streams), most_(most) {}

  // Waits for the drain; false when the client went away before, or there are too many such calls.
  bool wait(const grpc::ServerContext& context) {
    std::unique_lock lock(mutex_);
    if (open_ >= most_) return false;
    ++open_;
    while (!streams_.draining() && !context.IsCancelled()) changed_.wait_for(lock, kLookPeriod);
    --open_;
    return streams_.draining();
  }

 private:
  Streams& streams_;
  const int most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_ = 0;
};

class Control : public camera_ai::Control::Service {
 public:
  Control(Shared& shared, int most) : watches_(shared.streams, most) {}

  grpc::Status Watch(grpc::ServerContext* context, const camera_ai::WatchRequest*,
                     grpc::ServerWriter<camera_ai::Wish>* wishes) override {
    if (!watches_.wait(*context))
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "over capacity: too many watch"};
    wishes->Write(drain_wish());
    return grpc::Status::OK;
  }

 private:
  OpenWatches watches_;
};

class Health : public grpc::health::v1::Health::Service {
 public:
  explicit Health(Shared& shared) : shared_(shared), watches_(shared.streams, kMaxHealthWatches) {}

  grpc::Status Check(grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest* request,
                     HealthCheckResponse* response) override {
    *response = shared_.health.of(request->service());
    if (response->status() != HealthCheckResponse::SERVICE_UNKNOWN) return grpc::Status::OK;
    return {grpc::StatusCode::NOT_FOUND, "unknown service"};
  }

  grpc::Status Watch(grpc::ServerContext* context, const grpc::health::v1::HealthCheckRequest* request,
                     grpc::ServerWriter<HealthCheckResponse>* states) override {
    states->Write(shared_.health.of(request->service()));
    if (!watches_.wait(*context))
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "over capacity: too many watch"};
    states->Write(shared_.health.of(request->service()));
    return Streams::draining_status();
  }

 private:
  Shared& shared_;
  OpenWatches watches_;
};

class SyncServer : public Server {
 public:
  explicit SyncServer(const Options& options)
      : options_(options),
        // Simulated work is done by all threads at once, as published; nets are as many as workers.
        shared_(options,
                make_workers(options, options.detector.simulated ? options.max_streams : options.workers)),
        detection_(shared_),
        control_(shared_, options.max_streams + kSpareWatches),
        health_(shared_) {}

  int start() override {
    grpc::ServerBuilder builder;
    int port = 0;
    configure(builder, options_, &port);
    grpc::ResourceQuota quota;
    quota.SetMaxThreads(2 * options_.max_streams + kSpareWatches + kMaxHealthWatches + kSpareThreads);
    builder.SetResourceQuota(quota);
    builder.RegisterService(&detection_);
    builder.RegisterService(&control_);
    builder.RegisterService(&health_);
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) throw ListenError("--listen " + options_.listen.text() + ": cannot listen");
    return port;
  }

  bool drain() override {
    shared_.health.stop_serving();
    shared_.streams.start_draining();
    std::this_thread::sleep_for(kReadGrace);
    if (!shared_.frames_in_hand.wait_none(steady_clock::now() + kDrainGrace)) return false;
    // Calls that wait for a frame end with their connections.
    server_->Shutdown(std::chrono::system_clock::now() + kCloseGrace);
    return true;
  }

 private:
  const Options options_;
  Shared shared_;
  Detection detection_;
  Control control_;
  Health health_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

std::unique_ptr<Server> make_sync_server(const Options& options) {
  return std::make_unique<SyncServer>(options);
}

}  // namespace reference
