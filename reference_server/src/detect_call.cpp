#include "detect_call.h"

#include <stdexcept>

#include "wishes.h"

namespace reference {

DetectCall::DetectCall(AsyncServer& server) : server_(server) {
  server_.calls().arrive();
  server_.detection().RequestDetectStream(&context_, &stream_, server_.queue(), server_.queue(), &begun_);
}

DetectCall::~DetectCall() {
  if (id_ != 0) server_.streams().leave(id_);
  server_.calls().leave();
}

void DetectCall::on_begun(bool ok, FrameWorker&) {
  if (!ok) {  // The server has ended, and no call came.
    delete this;
    return;
  }
  new DetectCall(server_);
  if (const grpc::Status refusal = server_.streams().enter(this, &id_); !refusal.ok()) {
    finish(refusal);
    return;
  }
  try {
    query_ = parse_wishes(context_.client_metadata(), server_.labels());
  } catch (const std::invalid_argument& error) {
    finish({grpc::StatusCode::INVALID_ARGUMENT, error.what()});
    return;
  }
  for (const auto& [key, value] : server_.facts()) context_.AddInitialMetadata(key, value);
  stream_.SendInitialMetadata(&facts_sent_);
}

void DetectCall::on_facts_sent(bool ok, FrameWorker&) { read_next(ok); }

void DetectCall::on_written(bool ok, FrameWorker&) { read_next(ok); }

void DetectCall::on_read(bool ok, FrameWorker& worker) {
  bool finishing = false;
  {
    const std::lock_guard lock(mutex_);
    finishing = state_ == State::kFinishing;
    if (!finishing) state_ = State::kBusy;
  }
  if (finishing) {
    release();
    return;
  }
  if (!ok) {  // The client has half-closed, or has gone: then nobody hears the status.
    finish(grpc::Status::OK);
    return;
  }
  has_begun_ = true;
  grpc::ByteBuffer response;
  if (!worker.answer(&incoming_, query_, &response)) {
    finish({grpc::StatusCode::INVALID_ARGUMENT, "found bytes that are no DetectRequest"});
    return;
  }
  stream_.Write(response, &written_);
}

void DetectCall::read_next(bool ok) {
  std::optional<grpc::Status> end;
  {
    const std::lock_guard lock(mutex_);
    if (!ok) {
      end = grpc::Status::CANCELLED;
    } else if (wanted_end_) {
      end = wanted_end_;
    } else if (server_.streams().draining()) {
      end = Streams::draining_status();
    } else {
      state_ = State::kReading;
      stream_.Read(&incoming_, &read_);
    }
  }
  if (end) finish(*end);
}

void DetectCall::end(const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kBusy) wanted_end_ = status;
  if (state_ != State::kReading) return;
  state_ = State::kFinishing;
  awaited_ = 2;
  stream_.Finish(status, &finished_);
}

// From a state of being busy, by the thread that is.
void DetectCall::finish(const grpc::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kFinishing;
    awaited_ = 1;
  }
  // A client that hears of the end finds the place free.
  if (id_ != 0) server_.streams().leave(id_);
  stream_.Finish(status, &finished_);
}

void DetectCall::on_finished(bool, FrameWorker&) { release(); }

void DetectCall::release() {
  if (--awaited_ == 0) delete this;
}

}  // namespace reference
