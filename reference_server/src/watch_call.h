// Calls that stay open until the server drains: agents that listen for wishes, and health checks.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "event.h"
#include "live_calls.h"

namespace reference {

class Watcher {
 public:
  virtual ~Watcher() = default;
  // Sends the last message and ends the call.
  virtual void tell_last() = 0;
};

// The open calls of one kind. Safe to use from several threads.
class Watchers {
 public:
  explicit Watchers(std::size_t most) : most_(most) {}

  // Takes a call in; false when there are too many.
  bool enter(Watcher* watcher) {
    const std::lock_guard lock(mutex_);
    if (watching_.size() >= most_) return false;
    watching_.insert(watcher);
    if (told_) watcher->tell_last();
    return true;
  }

  void leave(Watcher* watcher) {
    const std::lock_guard lock(mutex_);
    watching_.erase(watcher);
  }

  void tell_all() {
    const std::lock_guard lock(mutex_);
    told_ = true;
    for (Watcher* watcher : watching_) watcher->tell_last();
  }

 private:
  const std::size_t most_;
  std::mutex mutex_;
  bool told_ = false;
  std::set<Watcher*> watching_;
};

// What distinguishes one kind of watching call from another.
template <typename Request, typename Message>
struct WatchKind {
  // Asks gRPC for the next call of this kind.
  std::function<void(grpc::ServerContext*, Request*, grpc::ServerAsyncWriter<Message>*, Event*)> await;
  // What is sent at once, if anything, and when the server drains.
  std::function<std::optional<Message>(const Request&)> first;
  std::function<Message(const Request&)> last;
  std::string too_many;
  grpc::Status end;
  Watchers* watchers;
  LiveCalls* calls;
};

// Destroys itself once nothing is under way for it any more.
template <typename Request, typename Message>
class WatchCall : public Watcher {
 public:
  // Waits for the next call of its kind, which has to live longer.
  explicit WatchCall(const WatchKind<Request, Message>& kind) : kind_(kind) {
    kind_.calls->arrive();
    context_.AsyncNotifyWhenDone(&over_);
    kind_.await(&context_, &request_, &writer_, &begun_);
  }

  void tell_last() override {
    const std::lock_guard lock(mutex_);
    wants_last_ = true;
    go_on();
  }

 private:
  ~WatchCall() override {
    kind_.watchers->leave(this);
    kind_.calls->leave();
  }

  void on_begun(bool ok, FrameWorker&) {
    if (!ok) {  // The server has ended, and no call came.
      delete this;
      return;
    }
    new WatchCall(kind_);
    begin();
    release();
  }

  void begin() {
    const bool entered = kind_.watchers->enter(this);
    const std::lock_guard lock(mutex_);
    if (!entered) {
      finish({grpc::StatusCode::RESOURCE_EXHAUSTED, kind_.too_many});
      return;
    }
    const auto message = kind_.first(request_);
    if (message) {
      ++awaited_;
      writer_.Write(*message, &written_);
    }
    writing_ = message.has_value();
    go_on();
  }

  void on_written(bool, FrameWorker&) {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      go_on();
    }
    release();
  }

  void on_over(bool, FrameWorker&) {
    {
      const std::lock_guard lock(mutex_);
      finishing_ = true;  // Where nothing was, nobody is left to be told.
    }
    release();
  }

  void on_finished(bool, FrameWorker&) { release(); }

  void go_on() {
    if (writing_ || finishing_ || !wants_last_) return;
    finishing_ = true;
    ++awaited_;
    writer_.WriteAndFinish(kind_.last(request_), grpc::WriteOptions(), kind_.end, &finished_);
  }

  void finish(const grpc::Status& status) {
    finishing_ = true;
    ++awaited_;
    writer_.Finish(status, &finished_);
  }

  void release() {
    if (--awaited_ == 0) delete this;
  }

  const WatchKind<Request, Message>& kind_;
  grpc::ServerContext context_;
  Request request_;
  grpc::ServerAsyncWriter<Message> writer_{&context_};
  EventOf<WatchCall> begun_{this, &WatchCall::on_begun};
  EventOf<WatchCall> written_{this, &WatchCall::on_written};
  EventOf<WatchCall> finished_{this, &WatchCall::on_finished};
  EventOf<WatchCall> over_{this, &WatchCall::on_over};
  // Events that are still to come or in hand. Two from the start: another worker may get the call's end before
  // this one is through with its beginning.
  std::atomic<int> awaited_{2};

  // Taken after Watchers' lock, never before it.
  std::mutex mutex_;
  // True from the start: the first message comes first.
  bool writing_ = true;
  bool wants_last_ = false;
  bool finishing_ = false;
};

}  // namespace reference
