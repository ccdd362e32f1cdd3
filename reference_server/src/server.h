// What main() runs: either kind of server, from start to drain.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

#include "options.h"

namespace reference {

class Server {
 public:
  virtual ~Server() = default;
  // Loads the detectors and listens; returns the real port. Throws ServerError.
  virtual int start() = 0;
  // Answers the frames that were read, ends the calls and stops. False when something could not be ended
  // within kDrainGrace; the server must not be destroyed then.
  virtual bool drain() = 0;

  static constexpr std::chrono::seconds kDrainGrace{9};
  // For what is on its way when all calls have ended.
  static constexpr std::chrono::milliseconds kCloseGrace{500};
};

// Agents that watch, beyond one for each camera, and health checks that stay open.
constexpr int kSpareWatches = 16;
constexpr int kMaxHealthWatches = 32;

std::unique_ptr<Server> make_server(const Options& options);

// Sets limits, keepalive and the address as the contract wants them; `port` is filled in by the start.
void configure(grpc::ServerBuilder& builder, const Options& options, int* port);

}  // namespace reference
