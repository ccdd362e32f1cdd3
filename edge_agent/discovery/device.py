"""Asking one ONVIF device for its streams; bounded in time and size, whatever it answers.

The user and password go to the address that the device is asked at, and nowhere else: what it says of other
hosts is not followed, redirects neither. They go as digests (WS-UsernameToken by the device's own clock, or
HTTP Digest), never as they are.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from onveef import AsyncOnvifClient, OnvifAuthError, OnvifEndpoint, OnvifError, envelopes, parsers, urls

from edge_agent.config.source_url import HIDDEN, parse_source
from edge_agent.discovery.probe import LONGEST_NAME, Device
from edge_agent.discovery.xml_bounds import XmlBoundsError, check_xml
from edge_agent.errors import one_line

# Of one device, all questions together.
DEVICE_TIMEOUT_S = 15.0
ANSWER_TIMEOUT_S = 5.0
MOST_ANSWER_BYTES = 512 * 1024
MOST_PROFILES = 16
AT_ONCE = 8
STREAM_SCHEMES = ("rtsp", "rtsps")
# Headers that speak of an answer's body as it came.
REPLACED = frozenset((b"content-type", b"content-length", b"transfer-encoding", b"content-encoding"))


@dataclass(frozen=True, slots=True)
class Credentials:
    """For the devices."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Stream:
    """One media profile of a device."""

    profile: str
    url: str
    """Without credentials; empty where the device tells none that can be used: see `note`."""
    encoding: str = ""
    width: int | None = None
    height: int | None = None
    fps: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a device told; `problem` says in plain words why it is not more."""

    device: Device
    streams: tuple[Stream, ...] = ()
    problem: str = ""


async def ask_all(devices: Iterable[Device], credentials: Credentials | None) -> list[Answer]:
    """Ask several devices, some at once; one that is slow or hostile costs the others nothing."""
    # Their lines would name every request, and a device's own text.
    for library in ("httpx", "httpcore", "onveef"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    room = asyncio.Semaphore(AT_ONCE)

    async def one(device: Device) -> Answer:
        async with room:
            return await ask(device, credentials)

    return list(await asyncio.gather(*map(one, devices)))


async def ask(device: Device, credentials: Credentials | None) -> Answer:
    """Ask one device for its streams."""
    streams: list[Stream] = []
    problem = ""
    try:
        transport = _OneHost(httpx.URL(device.service))
        async with (
            asyncio.timeout(DEVICE_TIMEOUT_S),
            httpx.AsyncClient(transport=transport, timeout=ANSWER_TIMEOUT_S, trust_env=False) as http,
        ):
            client = _client(device, credentials, http)
            told = await _information(client)
            device = replace(device, **{key: value for key, value in told.items() if value})
            await _collect_streams(client, credentials, streams)
    except OnvifAuthError:
        problem = _refused(credentials)
    except TimeoutError:
        problem = f"it has not answered everything within {DEVICE_TIMEOUT_S:g} s"
    except (OnvifError, httpx.HTTPError, httpx.InvalidURL) as error:
        problem = _hidden(_in_words(error), credentials)
    # Anything else that the library makes of a hostile answer: it is one device's.
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        problem = f"its answers cannot be understood ({type(error).__name__})"
    if not streams and not problem:
        problem = "it tells no stream"
    return Answer(device, tuple(streams), problem)


def _in_words(error: Exception) -> str:
    """Say what stood in the way; the library wraps what the transport raised."""
    cause = error.__cause__ if isinstance(error.__cause__, httpx.HTTPError) else error
    if isinstance(cause, httpx.ConnectError):
        return f"it cannot be reached: {one_line(str(cause)) or 'no connection'}"
    if isinstance(cause, httpx.RemoteProtocolError):
        return "what answers there does not speak HTTP"
    return one_line(str(cause)) or f"the connection failed ({type(cause).__name__})"


def _refused(credentials: Credentials | None) -> str:
    if credentials is None:
        return "it wants a user: give --user and --password-file"
    return f"it refuses the user {one_line(credentials.user)!r} or the password"


class _Client(AsyncOnvifClient):
    async def get_system_date_time(self) -> dict[str, Any]:
        """Ask without credentials: with a wrong clock they would be refused, which this is to find out."""
        xml = await self.call(
            service="device",
            operation="GetSystemDateAndTime",
            body_inner=envelopes.device_get_system_date_time(),
            require_auth=False,
        )
        return parsers.parse_system_datetime(xml)


class _OneHost(httpx.AsyncBaseTransport):
    """Speaks with one device only, and hands on nothing that is too much, or may become too much."""

    def __init__(self, url: httpx.URL) -> None:
        self._allowed = (url.scheme, url.host, url.port)
        # Cameras carry certificates of their own making.
        self._transport = httpx.AsyncHTTPTransport(verify=False, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send, if it goes to the device; read the whole answer, within the bounds."""
        if (request.url.scheme, request.url.host, request.url.port) != self._allowed:
            raise httpx.UnsupportedProtocol("it names another host, which is not asked", request=request)
        request.headers["Accept-Encoding"] = "identity"
        response = await self._transport.handle_async_request(request)
        try:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise httpx.DecodingError("found a compressed answer, expected a plain one", request=request)
            body = bytearray()
            async for chunk in response.stream:  # type: ignore[union-attr]
                body += chunk
                if len(body) > MOST_ANSWER_BYTES:
                    raise httpx.ReadError(f"found an answer of more than {MOST_ANSWER_BYTES} bytes")
        finally:
            await response.aclose()
        # What the library reads has to be what was checked: it would decode by the charset that is told.
        text = body.decode("utf-8", "replace")
        try:
            check_xml(text)
        except XmlBoundsError as error:
            raise httpx.DecodingError(str(error), request=request) from None
        headers = [(key, value) for key, value in response.headers.raw if key.lower() not in REPLACED]
        return httpx.Response(response.status_code, headers=headers, text=text)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


def _client(device: Device, credentials: Credentials | None, http: httpx.AsyncClient) -> AsyncOnvifClient:
    return _Client(
        endpoint=OnvifEndpoint(device.service),
        username=credentials.user if credentials else "",
        password=credentials.password if credentials else "",
        auto_discover=False,
        http_auth="digest",
        password_text_fallback=False,
        # Each attempt counts for a camera that locks a user out.
        retries=0,
        max_response_bytes=MOST_ANSWER_BYTES,
        timeout_s=ANSWER_TIMEOUT_S,
        http_client=http,
    )


async def _services(client: AsyncOnvifClient) -> dict[str, str]:
    """Give the URLs of the services, at the address that the device is asked at whatever it says of it."""
    services: dict[str, str] = {}
    try:
        services = await client.get_services()
    except OnvifAuthError:
        raise
    except OnvifError:
        pass
    # Older devices know only this.
    services = services or await client.get_capabilities()
    return urls.rewrite_service_map(services, client.endpoint.device_xaddr)


async def _information(client: AsyncOnvifClient) -> dict[str, str]:
    """Find the services; and what the device is, where it tells that."""
    client.set_endpoint(OnvifEndpoint(client.endpoint.device_xaddr, await _services(client)))
    try:
        told = await client.get_device_information()
    except OnvifAuthError:
        raise
    except OnvifError:
        return {}
    words = [one_line(str(told.get(key, ""))) for key in ("Manufacturer", "Model")]
    return {"hardware": " ".join(word for word in words if word)[:LONGEST_NAME]}


async def _collect_streams(
    client: AsyncOnvifClient, credentials: Credentials | None, streams: list[Stream]
) -> None:
    """Ask for the profiles, by the newer service first: the older one does not know H.265."""
    known = [service for service in ("media2", "media") if client.endpoint.has(service)]
    profiles: list[dict[str, Any]] = []
    for service in known:
        try:
            body = envelopes.media_get_profiles(use_media2=service == "media2")
            profiles = parsers.parse_profiles(
                await client.call(service=service, operation="GetProfiles", body_inner=body)
            )
        except OnvifAuthError:
            raise
        except OnvifError:
            if service == known[-1]:
                raise
        if profiles:
            break
    for profile in profiles[:MOST_PROFILES]:
        body = envelopes.media_get_stream_uri(
            profile_token=str(profile.get("token", "")), use_media2=service == "media2"
        )
        try:
            xml = await client.call(service=service, operation="GetStreamUri", body_inner=body)
        except OnvifAuthError:
            raise
        except OnvifError as error:
            streams.append(_described(profile, "", _hidden(one_line(str(error)), credentials)))
            continue
        url, note = _usable(parsers.parse_stream_uri(xml), client.local_address(), credentials)
        streams.append(_described(profile, url, note))


def _described(profile: dict[str, Any], url: str, note: str) -> Stream:
    encoder = profile.get("video_encoder") or {}

    def figure(key: str) -> int | None:
        value = encoder.get(key)
        return value if isinstance(value, int) and 0 < value < 100_000 else None

    return Stream(
        one_line(str(profile.get("name") or profile.get("token") or ""))[:LONGEST_NAME],
        url,
        one_line(str(encoder.get("encoding", "")))[:16],
        figure("width"),
        figure("height"),
        figure("fps_limit"),
        note,
    )


def _usable(text: str, host: str, credentials: Credentials | None) -> tuple[str, str]:
    """Give the stream's URL at the device, without credentials, and what is to be said of it."""
    if not text:
        return "", "it tells no address for this profile"
    if not (text.isascii() and text.isprintable()):
        return "", "its address cannot be used: it holds characters that no URL may have"
    try:
        source = parse_source(text)
        parts = urlsplit(source.url)
        told_host, port = parts.hostname or "", parts.port
    except ValueError as error:
        return "", f"its address cannot be used: {one_line(str(error))}"
    if parts.scheme not in STREAM_SCHEMES:
        return "", f"its address cannot be used: found {parts.scheme or 'no scheme'}, expected rtsp or rtsps"
    authority = f"[{host}]" if ":" in host else host
    url = parts._replace(netloc=f"{authority}{'' if port is None else f':{port}'}").geturl()
    notes = [f"the device names the host {one_line(told_host)[:LONGEST_NAME]}"] if told_host != host else []
    hidden = _hidden(url, credentials)
    if hidden != url:
        notes.append(f"its address carries the password: put it where {HIDDEN} stands")
    return hidden, "; ".join(notes)


def _hidden(text: str, credentials: Credentials | None) -> str:
    """Take the password out of what a device sent back."""
    if credentials is not None and credentials.password:
        for form in (credentials.password, quote(credentials.password, safe=""), quote(credentials.password)):
            text = text.replace(form, HIDDEN)
    return text
