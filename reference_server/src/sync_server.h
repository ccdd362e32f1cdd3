// The synchronous server: gRPC's blocking interface, a thread for each call for as long as it is open.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "server.h"

namespace reference {

std::unique_ptr<Server> make_sync_server(const Options& options);

}  // namespace reference
