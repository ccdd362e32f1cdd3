// The call's metadata: what a client asks for, and what the server tells.
#pragma once

#include <grpcpp/support/string_ref.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "detector.h"
#include "options.h"

namespace reference {

using ClientMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;
using Facts = std::vector<std::pair<std::string, std::string>>;

// Reads what a call wants. Throws std::invalid_argument in words for the client.
Query parse_wishes(const ClientMetadata& metadata, const std::vector<std::string>& labels);

// What DetectStream's initial metadata says.
Facts make_facts(const Options& options, const Detector& detector);

}  // namespace reference
