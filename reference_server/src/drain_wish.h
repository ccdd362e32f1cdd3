// The one wish that this server has.
#pragma once

#include "camera_ai/control.pb.h"
#include "server.h"

namespace reference {

inline camera_ai::Wish drain_wish() {
  camera_ai::Wish wish;
  wish.mutable_drain()->set_reason("the server is shutting down");
  wish.mutable_drain()->set_grace_ms(std::chrono::milliseconds(Server::kDrainGrace).count());
  return wish;
}

}  // namespace reference
