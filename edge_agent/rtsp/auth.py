"""Who may watch: HTTP Basic (RFC 7617) and Digest with MD5 (RFC 2617) as cameras speak them."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.request import parse_http_list, parse_keqv_list

REALM = "camera"
Scheme = Literal["basic", "digest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The one user a camera knows, and how the password is asked for; the password stays out of the repr."""

    user: str
    password: str = field(repr=False)
    scheme: Scheme = "digest"
    qop: bool = False
    """Digest offers `qop="auth"`; without it the answer is the older one that cheap cameras ask for."""


class Gate:
    """Asks one connection for the credentials; its Digest nonce lives as long as the connection."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._nonce = secrets.token_hex(16)

    @property
    def challenge(self) -> str:
        """The value of WWW-Authenticate."""
        if self._credentials.scheme == "basic":
            return f'Basic realm="{REALM}"'
        qop = ', qop="auth"' if self._credentials.qop else ""
        return f'Digest realm="{REALM}", nonce="{self._nonce}", algorithm=MD5{qop}'

    def opens(self, authorization: str, method: str, uri: str) -> bool:
        """Tell whether an Authorization header fits this request; a malformed one does not."""
        scheme, _, rest = authorization.partition(" ")
        if scheme.lower() != self._credentials.scheme:
            return False
        if self._credentials.scheme == "basic":
            return self._basic(rest.strip())
        try:
            fields = parse_keqv_list(parse_http_list(rest))
        except (ValueError, IndexError):
            return False
        return self._digest(fields, method, uri)

    def _basic(self, token: str) -> bool:
        try:
            given = base64.b64decode(token, validate=True)
        except (binascii.Error, ValueError):
            return False
        wanted = f"{self._credentials.user}:{self._credentials.password}".encode()
        return hmac.compare_digest(given, wanted)

    def _digest(self, fields: Mapping[str, str], method: str, uri: str) -> bool:
        if fields.get("nonce") != self._nonce or fields.get("uri") != uri:
            return False
        known = _md5(self._credentials.user, REALM, self._credentials.password)
        middle = [self._nonce]
        if self._credentials.qop:
            middle += [fields.get("nc", ""), fields.get("cnonce", ""), "auth"]
        wanted = _md5(known, *middle, _md5(method, uri))
        given = fields.get("response", "").lower()
        return fields.get("username") == self._credentials.user and hmac.compare_digest(
            given.encode(errors="surrogateescape"), wanted.encode()
        )


def _md5(*parts: str) -> str:
    # The scheme's own hash, not a choice: cameras know no other.
    text = ":".join(parts).encode(errors="surrogateescape")
    return hashlib.md5(text, usedforsecurity=False).hexdigest()
