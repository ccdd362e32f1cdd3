#include "server.h"

#include <grpc/impl/codegen/compression_types.h>

#include "address.h"
#include "async_server.h"
#include "sync_server.h"

namespace reference {

std::unique_ptr<Server> make_server(const Options& options) {
  if (options.mode == Mode::kSync) return make_sync_server(options);
  return std::make_unique<AsyncServer>(options);
}

void configure(grpc::ServerBuilder& builder, const Options& options, int* port) {
  builder.AddListeningPort(options.listen.text(), grpc::InsecureServerCredentials(), port);
  // A message above the announced limit still gets its answer; above twice that gRPC ends the call.
  builder.SetMaxReceiveMessageSize(static_cast<int>(2 * options.max_image_bytes));
  // Identity only: a compressed message could expand a thousandfold before anybody looks at it.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  // A port in use is an error, not shared with whoever has it.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
}

}  // namespace reference
