#include "address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "errors.h"

namespace reference {
namespace {

constexpr int kMaxPort = 65535;

// Says why the address cannot be listened on; nullptr when it can.
const char* why_not(const addrinfo& where) {
  const int probe = socket(where.ai_family, where.ai_socktype, where.ai_protocol);
  if (probe < 0) return std::strerror(errno);
  const int reuse = 1;
  setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  const bool listens = bind(probe, where.ai_addr, where.ai_addrlen) == 0 && listen(probe, 1) == 0;
  const int error = errno;
  close(probe);
  return listens ? nullptr : std::strerror(error);
}

bool is_port(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return digits && text.size() <= 5 && std::stoi(text) <= kMaxPort;
}

}  // namespace

std::string Address::text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool Address::is_loopback() const {
  if (host == "localhost") return true;
  in_addr ipv4{};
  in6_addr ipv6{};
  if (inet_pton(AF_INET, host.c_str(), &ipv4) == 1) return ntohl(ipv4.s_addr) >> 24 == 127;
  return inet_pton(AF_INET6, host.c_str(), &ipv6) == 1 && IN6_IS_ADDR_LOOPBACK(&ipv6);
}

Address parse_address(const std::string& text) {
  const auto colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  bool fits = is_port(port);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    fits = false;
  }
  if (!fits || host.find_first_of("[]") != std::string::npos) {
    throw OptionError("--listen: found '" + text +
                      "', expected HOST:PORT, e.g. 127.0.0.1:50051 or [::1]:50051");
  }
  return {host.empty() ? "0.0.0.0" : host, std::stoi(port)};
}

void check_free(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  if (const int code = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found); code != 0) {
    throw ListenError("--listen " + address.text() + ": " + gai_strerror(code));
  }
  const char* problem = why_not(*found);
  freeaddrinfo(found);
  if (problem != nullptr) throw ListenError("--listen " + address.text() + ": " + problem);
}

}  // namespace reference
