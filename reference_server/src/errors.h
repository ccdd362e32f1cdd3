// What can go wrong for reasons outside this program.
#pragma once

#include <stdexcept>
#include <string>

namespace reference {

// Ends the program with one clear line.
class ServerError : public std::runtime_error {
 public:
  explicit ServerError(const std::string& problem, int exit_code = 1)
      : std::runtime_error(problem), exit_code(exit_code) {}
  const int exit_code;
};

// An option's value cannot be used.
class OptionError : public ServerError {
 public:
  explicit OptionError(const std::string& problem) : ServerError(problem, 2) {}
};

// The model or its labels do not load.
class DetectorError : public ServerError {
 public:
  using ServerError::ServerError;
};

// The address cannot be listened on.
class ListenError : public ServerError {
 public:
  using ServerError::ServerError;
};

// A frame's bytes are no whole picture of the format they claim: the frame's outcome, never the call's end.
class BadImage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The picture is whole, perhaps, but larger than this server takes.
class TooLarge : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace reference
