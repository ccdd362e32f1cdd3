// What a completion queue hands out: something that has happened to one call.
#pragma once

#include "frame_worker.h"

namespace reference {

class Event {
 public:
  virtual ~Event() = default;
  // Called by the worker thread that took the event from the queue; `ok` is gRPC's.
  virtual void happened(bool ok, FrameWorker& worker) = 0;
};

// An event that a member function of its owner takes.
template <typename Owner>
class EventOf : public Event {
 public:
  using Handler = void (Owner::*)(bool ok, FrameWorker& worker);

  EventOf(Owner* owner, Handler handler) : owner_(owner), handler_(handler) {}
  void happened(bool ok, FrameWorker& worker) override { (owner_->*handler_)(ok, worker); }

 private:
  Owner* const owner_;
  const Handler handler_;
};

}  // namespace reference
