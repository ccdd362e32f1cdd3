// The reference server: the wire of docs/wire.md as plain C++ would serve it. See docs/reference.md.
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "errors.h"
#include "options.h"
#include "server.h"

namespace {

// Blocks the signals that end the server in this thread and in all that it will start: one waits for them.
sigset_t block_ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void serve(const reference::Options& options) {
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = block_ending_signals();
  // gRPC would write a line for each stranger's failed handshake.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  reference::check_free(options.listen);
  const auto server = reference::make_server(options);
  const int port = server->start();
  std::printf("listening %s\n", reference::Address{options.listen.host, port}.text().c_str());
  std::fflush(stdout);
  int number = 0;
  sigwait(&signals, &number);
  if (!server->drain()) {
    std::fprintf(stderr, "reference-server: a worker did not end in time and is cut\n");
    std::_Exit(0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = reference::parse_options({argv + 1, argv + argc});
    if (options.help) {
      std::fputs(reference::kUsage, stdout);
    } else {
      serve(options);
    }
    return 0;
  } catch (const reference::ServerError& error) {
    std::fprintf(stderr, "reference-server: %s\n", error.what());
    return error.exit_code;
  }
}
