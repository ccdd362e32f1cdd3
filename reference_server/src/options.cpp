#include "options.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>

#include "cores.h"
#include "errors.h"

namespace reference {

const char* const kUsage =
    R"(usage: reference-server [OPTIONS]
  --listen HOST:PORT       where; port 0 takes a free one (127.0.0.1:50051)
  --insecure               allow plaintext beyond loopback
  --mode async|sync        one completion queue that the workers drain, or a blocked thread a call (async)
  --workers N              threads that work (async), nets (sync); one a usable core
  --detector NAME          coco-ssd, simulated:MS (processor time) or simulated:MS,wall (coco-ssd)
  --model-dir DIR          where coco-ssd's files are (central_server/models of this tree)
  --max-image-bytes N      larger images are refused (4194304)
  --max-image-pixels N     images of more pixels are refused (16777216)
  --max-streams N          more are refused (256)
  --max-age-ms N           announced to clients; this server drops nothing for its age (1000)
)";

namespace {

constexpr double kMaxWorkMs = 60'000;

std::int64_t whole_number(const std::string& flag, const std::string& text, std::int64_t least,
                          std::int64_t most) {
  char* end = nullptr;
  errno = 0;
  const std::int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0 || value < least || value > most) {
    throw OptionError(flag + ": found '" + text + "', expected a number from " + std::to_string(least) +
                      " to " + std::to_string(most));
  }
  return value;
}

Mode parse_mode(const std::string& text) {
  if (text == "async") return Mode::kAsync;
  if (text == "sync") return Mode::kSync;
  throw OptionError("--mode: found '" + text + "', expected async or sync");
}

DetectorChoice parse_detector(const std::string& text) {
  static const std::string kSimulated = "simulated:";
  static const std::string kWall = ",wall";
  DetectorChoice choice;
  if (text == "coco-ssd") return choice;
  if (text.compare(0, kSimulated.size(), kSimulated) != 0) {
    throw OptionError("--detector: found '" + text +
                      "', expected coco-ssd, simulated:MS or simulated:MS,wall");
  }
  std::string work = text.substr(kSimulated.size());
  if (work.size() > kWall.size() && work.compare(work.size() - kWall.size(), kWall.size(), kWall) == 0) {
    choice.clock = Clock::kWall;
    work.resize(work.size() - kWall.size());
  }
  char* end = nullptr;
  choice.simulated = true;
  choice.work_ms = std::strtod(work.c_str(), &end);
  if (work.empty() || *end != '\0' || !(choice.work_ms >= 0 && choice.work_ms <= kMaxWorkMs)) {
    throw OptionError("--detector simulated:MS: found '" + work +
                      "', expected milliseconds of work from 0 to 60000");
  }
  return choice;
}

// The tree's own models, from where the executable is built: reference_server/build.
std::filesystem::path default_model_dir() {
  std::error_code unknown;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return executable.parent_path().parent_path().parent_path() / "central_server" / "models";
}

void check_protection(const Options& options) {
  if (!options.insecure && !options.listen.is_loopback()) {
    throw OptionError("--listen " + options.listen.text() +
                      ": reachable from other machines, where plaintext can be read and forged: "
                      "give --insecure to listen there all the same");
  }
}

}  // namespace

std::string DetectorChoice::name() const {
  if (!simulated) return "coco-ssd";
  std::ostringstream text;
  text << "simulated:" << work_ms << (clock == Clock::kWall ? ",wall" : "");
  return text.str();
}

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  options.workers = usable_cores();
  options.model_dir = default_model_dir();
  const auto number = [](auto& field, std::int64_t least, std::int64_t most) {
    return [&field, least, most](const std::string& flag, const std::string& text) {
      field = whole_number(flag, text, least, most);
    };
  };
  using Setter = std::function<void(const std::string& flag, const std::string& text)>;
  const std::map<std::string, Setter> settings = {
      {"--listen", [&](auto&, auto& text) { options.listen = parse_address(text); }},
      {"--mode", [&](auto&, auto& text) { options.mode = parse_mode(text); }},
      {"--workers", number(options.workers, 1, 1024)},
      {"--detector", [&](auto&, auto& text) { options.detector = parse_detector(text); }},
      {"--model-dir", [&](auto&, auto& text) { options.model_dir = text; }},
      {"--max-image-bytes", number(options.max_image_bytes, 1024, 256 << 20)},
      {"--max-image-pixels", number(options.max_image_pixels, 64, 1 << 30)},
      {"--max-streams", number(options.max_streams, 1, 100'000)},
      {"--max-age-ms", number(options.max_age_ms, 1, 3'600'000)},
  };
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    const auto equals = argument->find('=');
    const std::string flag = argument->substr(0, equals);
    if (flag == "--insecure" || flag == "--help") {
      if (equals != std::string::npos) throw OptionError(flag + ": found a value, expected none");
      (flag == "--help" ? options.help : options.insecure) = true;
      continue;
    }
    const auto setting = settings.find(flag);
    if (setting == settings.end()) throw OptionError("no such option: '" + flag + "'; see --help");
    if (equals != std::string::npos) {
      setting->second(flag, argument->substr(equals + 1));
    } else if (++argument == arguments.end()) {
      throw OptionError(flag + ": expected a value");
    } else {
      setting->second(flag, *argument);
    }
  }
  check_protection(options);
  return options;
}

}  // namespace reference
