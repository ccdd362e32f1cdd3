// One DetectStream call of the asynchronous server: read, work, write, read.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "async_server.h"
#include "event.h"
#include "streams.h"

namespace reference {

// Destroys itself once nothing is under way for it any more. The work on a frame is done by the thread that
// got the event of its arrival; one frame of a call at a time.
class DetectCall : public OpenStream {
 public:
  // Waits for the next call.
  explicit DetectCall(AsyncServer& server);

  bool has_begun() const override { return has_begun_; }
  void end(const grpc::Status& status) override;

 private:
  // What the call is about, besides its end.
  enum class State {
    kBusy,       // something is under way that goes on to the next frame by itself
    kReading,    // the next frame may come or not
    kFinishing,  // the status is on its way
  };

  ~DetectCall() override;
  void on_begun(bool ok, FrameWorker& worker);
  void on_facts_sent(bool ok, FrameWorker& worker);
  void on_read(bool ok, FrameWorker& worker);
  void on_written(bool ok, FrameWorker& worker);
  void on_finished(bool ok, FrameWorker& worker);
  void read_next(bool ok);
  void finish(const grpc::Status& status);
  void release();

  AsyncServer& server_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_{&context_};
  EventOf<DetectCall> begun_{this, &DetectCall::on_begun};
  EventOf<DetectCall> facts_sent_{this, &DetectCall::on_facts_sent};
  EventOf<DetectCall> read_{this, &DetectCall::on_read};
  EventOf<DetectCall> written_{this, &DetectCall::on_written};
  EventOf<DetectCall> finished_{this, &DetectCall::on_finished};
  Streams::Id id_ = 0;
  Query query_;
  grpc::ByteBuffer incoming_;
  std::atomic<bool> has_begun_{false};

  // Taken after Streams' lock, never before it.
  std::mutex mutex_;
  State state_ = State::kBusy;
  // The status that another thread wants the call to end with.
  std::optional<grpc::Status> wanted_end_;
  // Events that are still to come when finishing.
  std::atomic<int> awaited_{0};
};

}  // namespace reference
