#include "options.h"

#include "address.h"
#include "check.h"
#include "errors.h"

using reference::Address;
using reference::Clock;
using reference::Mode;
using reference::OptionError;
using reference::parse_address;
using reference::parse_options;

TEST("without options it is the asynchronous server with the model, on loopback") {
  const auto options = parse_options({});
  CHECK(options.mode == Mode::kAsync);
  CHECK(!options.detector.simulated);
  CHECK_EQUAL(options.listen.text(), "127.0.0.1:50051");
  CHECK(options.workers >= 1);
  CHECK_EQUAL(options.max_image_bytes, 4 << 20);
  CHECK_EQUAL(options.model_dir.filename(), "models");
}

TEST("a value follows its option, or an equals sign") {
  const auto options =
      parse_options({"--workers", "3", "--mode=sync", "--listen", "[::1]:0", "--max-streams=7", "--detector",
                     "simulated:2.5,wall", "--model-dir=/some/where"});
  CHECK_EQUAL(options.workers, 3);
  CHECK(options.mode == Mode::kSync);
  CHECK_EQUAL(options.listen.text(), "[::1]:0");
  CHECK_EQUAL(options.max_streams, 7);
  CHECK(options.detector.simulated && options.detector.clock == Clock::kWall);
  CHECK_EQUAL(options.detector.name(), "simulated:2.5,wall");
  CHECK_EQUAL(options.model_dir, "/some/where");
}

TEST("what cannot be used is refused with what was found and expected") {
  const auto refused = [](const char* argument, const char* part) {
    CHECK_THROWS(OptionError, part, parse_options({argument}));
  };
  refused("--workers=0", "--workers: found '0', expected a number from 1 to 1024");
  refused("--workers=two", "found 'two'");
  refused("--workers=", "found ''");
  refused("--workers", "expected a value");
  refused("--max-image-bytes=99999999999999999999", "expected a number from 1024 to 268435456");
  refused("--mode=threads", "expected async or sync");
  refused("--detector=yolo", "expected coco-ssd, simulated:MS or simulated:MS,wall");
  refused("--detector=simulated:", "expected milliseconds of work from 0 to 60000");
  refused("--detector=simulated:-1", "found '-1'");
  refused("--detector=simulated:nan", "found 'nan'");
  refused("--detector=simulated:5,clock", "found '5,clock'");
  refused("--insecure=yes", "--insecure: found a value, expected none");
  refused("--nonsense", "no such option: '--nonsense'");
  refused("serve", "no such option: 'serve'");
}

TEST("an address is a host and a port, IPv6 in brackets") {
  CHECK_EQUAL(parse_address("localhost:80").host, "localhost");
  CHECK_EQUAL(parse_address("[fe80::1]:80").host, "fe80::1");
  CHECK_EQUAL(parse_address(":80").host, "0.0.0.0");
  for (const char* text : {"", "80", "::1:80", "host:", "host:65536", "host:port", "[::1]80"}) {
    CHECK_THROWS(OptionError, "expected HOST:PORT", parse_address(text));
  }
}

TEST("plaintext beyond loopback has to be wanted") {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1"}) CHECK(Address{host}.is_loopback());
  for (const char* host : {"0.0.0.0", "192.168.1.2", "::", "example"}) CHECK(!Address{host}.is_loopback());
  CHECK_THROWS(OptionError, "give --insecure", parse_options({"--listen=0.0.0.0:0"}));
  CHECK(parse_options({"--listen=0.0.0.0:0", "--insecure"}).insecure);
}
