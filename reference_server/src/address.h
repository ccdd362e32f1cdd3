// Where to listen: no plaintext beyond loopback unless told so.
#pragma once

#include <string>

namespace reference {

struct Address {
  // A name, IPv4 or IPv6, without brackets.
  std::string host = "127.0.0.1";
  // 0 takes any free one.
  int port = 50051;

  // As it is typed, IPv6 in brackets.
  std::string text() const;
  // Whether only this machine can reach it; a name other than localhost counts as not.
  bool is_loopback() const;
};

// Reads HOST:PORT. Throws OptionError.
Address parse_address(const std::string& text);

// Tries the address before gRPC does, whose own message is many lines. Throws ListenError.
void check_free(const Address& address);

}  // namespace reference
