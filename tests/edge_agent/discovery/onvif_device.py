"""A scripted ONVIF device: it answers WS-Discovery by multicast on loopback, and SOAP over HTTP.

Written by the specifications, without the library that the agent uses.
"""

import base64
import contextlib
import hashlib
import os
import re
import socket
import struct
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GROUP, PORT = "239.255.255.250", 3702
LOOPBACK = "127.0.0.1"
# Where the tests ask from: another run of them on this machine has another, and gets no answer of ours.
ASKER = f"127.{64 + os.getpid() % 64}.{os.getpid() // 64 % 256}.1"
WSSE = "{http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd}"
WSU = "{http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd}"
SOAP = "{http://www.w3.org/2003/05/soap-envelope}"
NAMES = (
    'xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:tt="http://www.onvif.org/ver10/schema"'
    ' xmlns:tds="http://www.onvif.org/ver10/device/wsdl" xmlns:trt="http://www.onvif.org/ver10/media/wsdl"'
    ' xmlns:tr2="http://www.onvif.org/ver20/media/wsdl" xmlns:ter="http://www.onvif.org/ver10/error"'
    ' xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing"'
    ' xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery"'
)
# By the standard they are for everybody.
OPEN = {"GetSystemDateAndTime", "GetServices", "GetCapabilities"}
REALM = 'Digest realm="camera", nonce="0123456789abcdef", qop="auth", algorithm=MD5'


@dataclass(frozen=True)
class Profile:
    """One media profile as the device tells it."""

    token: str
    encoding: str = "H264"
    wh: tuple[int, int] = (1920, 1080)
    fps: int = 25
    uri: str = "rtsp://{host}:554/{token}"


@dataclass
class Device:
    """What the device is; a test changes what it wants."""

    host: str = LOOPBACK
    port: int = 0
    name: str = "Front%20Door"
    hardware: str = "CAM-1"
    user: str | None = None
    password: str = ""
    auth: str = "token"
    clock_offset: timedelta = timedelta()
    knows_services: bool = True
    media: tuple[str, ...] = ("ver10", "ver20")
    profiles: tuple[Profile, ...] = (Profile("main"), Profile("sub", "H264", (640, 360), 15))
    xaddrs: str | None = None
    services_host: str | None = None
    script: Callable[[BaseHTTPRequestHandler, str], bool] | None = None
    """Answers an operation in its own way, and says whether it did."""
    asked: list[str] = field(default_factory=list)
    refused: int = 0
    bodies: list[bytes] = field(default_factory=list)

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"{self.host}:{self.port}"

    def url(self, service: str) -> str:
        """Where it says that a service is."""
        return f"http://{self.services_host or self.address}/onvif/{service}"

    def match(self) -> str:
        """Give the body of its answer to a probe."""
        scopes = f"onvif://www.onvif.org/name/{self.name} onvif://www.onvif.org/hardware/{self.hardware}"
        return (
            "<d:ProbeMatches><d:ProbeMatch><a:EndpointReference><a:Address>urn:uuid:1</a:Address>"
            f"</a:EndpointReference><d:Types>dn:NetworkVideoTransmitter</d:Types><d:Scopes>{scopes}</d:Scopes>"
            f"<d:XAddrs>{self.xaddrs or self.url('device_service')}</d:XAddrs>"
            "<d:MetadataVersion>1</d:MetadataVersion></d:ProbeMatch></d:ProbeMatches>"
        )

    def answer(self, operation: str, body: bytes) -> tuple[int, str]:
        """Give status and SOAP body for a request."""
        wanted = self.user is not None and self.auth == "token" and operation not in OPEN
        if wanted and not self._admits(body):
            self.refused += 1
            return 400, _fault("ter:NotAuthorized", "Sender not Authorized")
        match operation:
            case "GetSystemDateAndTime":
                now = datetime.now(UTC) + self.clock_offset
                return 200, (
                    "<tds:GetSystemDateAndTimeResponse><tds:SystemDateAndTime><tt:UTCDateTime><tt:Time>"
                    f"<tt:Hour>{now.hour}</tt:Hour><tt:Minute>{now.minute}</tt:Minute>"
                    f"<tt:Second>{now.second}</tt:Second></tt:Time><tt:Date><tt:Year>{now.year}</tt:Year>"
                    f"<tt:Month>{now.month}</tt:Month><tt:Day>{now.day}</tt:Day></tt:Date></tt:UTCDateTime>"
                    "</tds:SystemDateAndTime></tds:GetSystemDateAndTimeResponse>"
                )
            case "GetServices" if self.knows_services:
                told = "".join(
                    f"<tds:Service><tds:Namespace>http://www.onvif.org/{version}/media/wsdl</tds:Namespace>"
                    f"<tds:XAddr>{self.url(f'media_{version}')}</tds:XAddr></tds:Service>"
                    for version in self.media
                )
                return 200, f"<tds:GetServicesResponse>{told}</tds:GetServicesResponse>"
            case "GetCapabilities":
                return 200, (
                    "<tds:GetCapabilitiesResponse><tds:Capabilities><tt:Media>"
                    f"<tt:XAddr>{self.url('media_ver10')}</tt:XAddr></tt:Media></tds:Capabilities>"
                    "</tds:GetCapabilitiesResponse>"
                )
            case "GetDeviceInformation":
                return 200, (
                    "<tds:GetDeviceInformationResponse><tds:Manufacturer>Acme</tds:Manufacturer>"
                    f"<tds:Model>{self.hardware}</tds:Model></tds:GetDeviceInformationResponse>"
                )
            case "GetProfiles":
                told = "".join(map(_profile, self.profiles))
                return 200, f"<trt:GetProfilesResponse>{told}</trt:GetProfilesResponse>"
            case "GetStreamUri":
                found = re.search(rb"ProfileToken>([^<]*)<", body)
                token = found[1].decode() if found else ""
                profile = next((known for known in self.profiles if known.token == token), None)
                if profile is None:
                    return 400, _fault("ter:NoProfile", "No such profile")
                uri = profile.uri.format(host=self.host, token=token)
                return 200, (
                    f"<trt:GetStreamUriResponse><trt:MediaUri><tt:Uri>{uri}</tt:Uri></trt:MediaUri>"
                    "</trt:GetStreamUriResponse>"
                )
            case _:
                return 400, _fault("ter:ActionNotSupported", "Optional Action Not Implemented")

    def _admits(self, body: bytes) -> bool:
        """Check a WS-UsernameToken: its digest, and that it was made within five minutes of our clock."""
        token = ET.fromstring(body).find(f".//{WSSE}UsernameToken")  # noqa: S314 - from the program in test
        if token is None:
            return False
        password, nonce = token.find(f"{WSSE}Password"), token.find(f"{WSSE}Nonce")
        created = token.find(f"{WSU}Created")
        if (
            password is None
            or nonce is None
            or created is None
            or "PasswordDigest" not in password.attrib["Type"]
        ):
            return False
        made = (created.text or "").encode()
        digest = hashlib.sha1(base64.b64decode(nonce.text or "") + made + self.password.encode()).digest()  # noqa: S324
        age = datetime.now(UTC) + self.clock_offset - datetime.fromisoformat(made.decode())
        return (
            token.findtext(f"{WSSE}Username") == self.user
            and password.text == base64.b64encode(digest).decode()
            and abs(age) < timedelta(minutes=5)
        )


def _profile(profile: Profile) -> str:
    width, height = profile.wh
    return (
        f'<trt:Profiles token="{profile.token}"><tt:Name>{profile.token}</tt:Name>'
        f"<tt:VideoEncoderConfiguration><tt:Encoding>{profile.encoding}</tt:Encoding>"
        f"<tt:Resolution><tt:Width>{width}</tt:Width><tt:Height>{height}</tt:Height></tt:Resolution>"
        f"<tt:RateControl><tt:FrameRateLimit>{profile.fps}</tt:FrameRateLimit></tt:RateControl>"
        "</tt:VideoEncoderConfiguration></trt:Profiles>"
    )


def _fault(subcode: str, reason: str) -> str:
    return (
        "<s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>"
        f"{subcode}</s:Value></s:Subcode></s:Code><s:Reason><s:Text>{reason}</s:Text></s:Reason></s:Fault>"
    )


def envelope(body: str) -> bytes:
    """Wrap what a device says."""
    return f'<?xml version="1.0"?><s:Envelope {NAMES}><s:Body>{body}</s:Body></s:Envelope>'.encode()


def _handler(device: Device) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body go out together.
        wbufsize = 1 << 16
        timeout = 10

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            device.bodies.append(bytes(str(self.headers), "latin-1") + body)
            found = ET.fromstring(body).find(f"{SOAP}Body")  # noqa: S314 - from the program in test
            operation = "" if found is None else found[0].tag.rpartition("}")[2]
            device.asked.append(operation)
            if device.script is not None and device.script(self, operation):
                return
            if device.auth == "http digest" and operation not in OPEN and not self._admitted():
                device.refused += 1
                self.reply(401, b"", ("WWW-Authenticate", REALM))
                return
            if device.auth == "http basic" and operation not in OPEN:
                self.reply(401, b"", ("WWW-Authenticate", 'Basic realm="camera"'))
                return
            status, answer = device.answer(operation, body)
            self.reply(status, envelope(answer))

        def reply(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/soap+xml; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _admitted(self) -> bool:
            told = dict(re.findall(r'(\w+)="?([^",]+)"?', self.headers.get("Authorization", "")))

            def md5(text: str) -> str:
                return hashlib.md5(text.encode()).hexdigest()  # noqa: S324

            if "response" not in told:
                return False
            first = md5(f"{device.user}:camera:{device.password}")
            second = md5(f"POST:{told['uri']}")
            once = ":".join((told["nonce"], told["nc"], told["cnonce"], told["qop"]))
            return told["response"] == md5(f"{first}:{once}:{second}")

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Leave it: a client that has had enough goes away."""


@contextlib.contextmanager
def serving(device: Device) -> Iterator[Device]:
    """Serve SOAP at the device's host, on a free port unless it names one."""
    with _Server((device.host, device.port), _handler(device)) as server:
        device.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield device
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def answering(*devices: Device, raw: tuple[bytes, ...] = ()) -> Iterator[list[bytes]]:
    """Answer probes by multicast on loopback, each device from its own address; gives the probes.

    `raw` are answers of a stranger, sent first.
    """
    probes: list[bytes] = []
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((GROUP, PORT))
        membership = struct.pack("4s4s", socket.inet_aton(GROUP), socket.inet_aton(LOOPBACK))
        listener.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        listener.settimeout(0.05)
        stopping = threading.Event()

        def send(host: str, data: bytes, to: tuple[str, int]) -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.bind((host, 0))
                sender.sendto(data, to)

        def listen() -> None:
            while not stopping.is_set():
                with contextlib.suppress(TimeoutError):
                    probe, sender = listener.recvfrom(65535)
                    if sender[0] != ASKER:
                        continue
                    probes.append(probe)
                    for data in raw:
                        send("127.0.0.66", data, sender)
                    for device in devices:
                        send(device.host, envelope(device.match()), sender)

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield probes
        finally:
            stopping.set()
            thread.join()
