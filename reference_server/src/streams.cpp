#include "streams.h"

#include <algorithm>
#include <string>

namespace reference {

grpc::Status Streams::draining_status() { return {grpc::StatusCode::UNAVAILABLE, "the server is draining"}; }

grpc::Status Streams::enter(OpenStream* stream, Id* id) {
  const std::lock_guard lock(mutex_);
  if (draining_) return draining_status();
  if (open_.size() >= max_streams_ && !make_room()) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "over capacity: " + std::to_string(open_.size()) + " of " +
                                                      std::to_string(max_streams_) + " streams"};
  }
  *id = next_id_++;
  open_.emplace(*id, stream);
  return grpc::Status::OK;
}

void Streams::leave(Id id) {
  const std::lock_guard lock(mutex_);
  open_.erase(id);
  if (open_.empty()) emptied_.notify_all();
}

void Streams::start_draining() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

void Streams::end_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, stream] : open_) stream->end(draining_status());
}

bool Streams::wait_empty(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return emptied_.wait_until(lock, deadline, [this] { return open_.empty(); });
}

// Silence keeps nobody out.
bool Streams::make_room() {
  const auto silent =
      std::find_if(open_.begin(), open_.end(), [](const auto& open) { return !open.second->has_begun(); });
  if (silent == open_.end()) return false;
  silent->second->end({grpc::StatusCode::RESOURCE_EXHAUSTED,
                       "over capacity: no frame was sent, and another call needs the place"});
  open_.erase(silent);
  return true;
}

}  // namespace reference
