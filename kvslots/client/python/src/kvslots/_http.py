"""HTTP/1.1 without I/O: encodes requests, and parses answers from the bytes that arrive."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Generator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from time import time
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ._errors import KvslotsError, NotHeldError, UnreachableError, _TakenError, refusal
from ._version import __version__

MAX_ANSWER = 16 << 20  # bytes
MAX_HEAD = 1 << 16  # bytes of the headers, or of a line between chunks
USER_AGENT = f"kvslots-python/{__version__}"


@dataclass(frozen=True, repr=False)  # a path or a header may contain a credential
class Request:
    method: str
    path: str
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Proxy:
    """A proxy that the environment names, as for the standard library: http_proxy, https_proxy, no_proxy; none for loopback."""

    host: str
    port: int
    authorization: str = ""

    @classmethod
    def of(cls, url: SplitResult) -> Proxy | None:
        named = getproxies().get(url.scheme)
        if not named or not url.hostname or loopback(url.hostname) or proxy_bypass(url.hostname):
            return None
        parts = urlsplit(named if "://" in named else f"http://{named}")
        if not parts.hostname:
            return None
        userinfo, found, _ = parts.netloc.rpartition("@")
        authorization = "Basic " + base64.b64encode(unquote(userinfo).encode()).decode() if found else ""
        return cls(parts.hostname, parts.port or 80, authorization)


def loopback(host: str) -> bool:
    """Report whether a host is this machine: a proxy elsewhere would mean another one, and must not see the token."""
    host = host.rstrip(".")
    try:
        return host == "localhost" or host.endswith(".localhost") or socket.inet_aton(host)[0] == 127
    except OSError:
        try:
            address = ip_address(host)
        except ValueError:
            return False
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback


@dataclass(frozen=True, repr=False)
class Address:
    """The URL of a gateway, or of a proxy in front of gateways."""

    scheme: str
    host: str
    port: int
    path: str
    proxy: Proxy | None = None

    @classmethod
    def parse(cls, url: str) -> Address:
        parts = urlsplit(url.strip())
        try:
            port = parts.port
        except ValueError:
            port = -1
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.username is not None
        if wrong or parts.query or parts.fragment or not url.isascii() or " " in url.strip():
            raise ValueError("the URL of a gateway is such as http://127.0.0.1:8080")
        assert parts.hostname is not None
        default = 443 if parts.scheme == "https" else 80
        return cls(parts.scheme, parts.hostname, port or default, parts.path.rstrip("/"), Proxy.of(parts))

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def tunnel(self) -> bytes:
        """Return the request to the proxy for a connection to the gateway, or nothing if none is needed."""
        if self.proxy is None or self.scheme == "http":
            return b""
        return _head("CONNECT", self.authority, {"Host": self.authority} | self._to_proxy())

    def _to_proxy(self) -> dict[str, str]:
        return {"Proxy-Authorization": self.proxy.authorization} if self.proxy and self.proxy.authorization else {}

    def encode(self, request: Request, token: str | None) -> bytes:
        """Return a request in bytes."""
        body = b"" if request.body is None else json.dumps(request.body).encode()
        headers = {"Host": self.authority, "User-Agent": USER_AGENT, "Content-Length": str(len(body)), **request.headers}
        if body:
            headers["Content-Type"] = "application/json"
        if token:
            headers["Authorization"] = f"Bearer {token}"
        target = self.path + request.path
        if self.proxy and self.scheme == "http":
            target, headers = f"{self}{target}", headers | self._to_proxy()
        return _head(request.method, target, headers) + body


def _head(method: str, target: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1")


@dataclass(frozen=True, repr=False)
class Response:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes
    reusable: bool  # the connection can take another request
    sent: float = 0.0  # when the request was sent, on the clock of leases
    repeated: bool = False  # an earlier request, of which the answer was lost, may have had the effect

    def number(self, header: str) -> float | None:
        """Return a header that is a whole number of 0 or more, or None."""
        text = self.headers.get(header, "")
        return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def error(self) -> KvslotsError | None:
        """Return what the answer reports, or None if the request has succeeded."""
        if self.status in (200, 204):
            return None
        try:
            failure = json.loads(self.body)
            text = str(failure.get("detail") or failure.get("error") or "")
        except (ValueError, AttributeError, RecursionError):
            text = ""
        get = self.headers.get
        error = refusal(
            get("kvslots-error", ""), text, self.status, self._retry_after(),
            get("kvslots-field", ""), get("kvslots-range", ""),
        )  # fmt: skip
        if isinstance(error, _TakenError):
            self.explain(error)
        if isinstance(error, NotHeldError):
            error._because(get("kvslots-cause"))
        return error

    def explain(self, error: _TakenError) -> None:
        """Add to a refusal by whom the slots are held."""
        error._explain(int(self.number("kvslots-place") or 0) or None, self.headers.get("kvslots-taken", ""))

    def _retry_after(self) -> float | None:
        seconds = self.number("retry-after")
        if seconds is None and "retry-after" in self.headers:  # a proxy may give a date (RFC 9110, 10.2.3)
            try:
                seconds = max(0.0, parsedate_to_datetime(self.headers["retry-after"]).timestamp() - time())
            except ValueError:
                return None
        return seconds

    def json(self) -> dict[str, Any]:
        """Return the body of a success, or raise UnreachableError if it is not a gateway's."""
        try:
            body = json.loads(self.body) if self.status != 204 else {}
        except (ValueError, RecursionError):
            raise not_understood() from None
        if not isinstance(body, dict):
            raise not_understood()
        return body


def not_understood() -> UnreachableError:
    return UnreachableError("the answer is not a gateway's", permanent=True)


class Parser:
    """Parses the answer to one request as its bytes arrive, in a time that grows with their number alone."""

    def __init__(self, repeated: bool = False) -> None:
        self.status = 0
        self.headers: dict[str, str] | None = None  # until they have arrived
        self._repeated = repeated  # as Response.repeated
        self.body = bytearray()  # so far; the caller may take out what has arrived
        self.started = False
        self._received = bytearray()  # and not parsed yet
        self._closed = False
        self._parsing = self._parse()

    def feed(self, data: bytes) -> Response | None:
        """Take bytes, or b"" if the server has closed the connection; return the answer once it is complete.

        Raises ConnectionError if it ends too early, and UnreachableError if it is not HTTP, or too long.
        """
        self.started = self.started or bool(data)
        self._closed = not data
        self._received += data
        http = self.headers is not None or b"HTTP/1.".startswith(self._received[:7])
        if not http or len(self.body) + len(self._received) > MAX_ANSWER:
            raise not_understood()
        try:
            next(self._parsing)
        except StopIteration as complete:
            response: Response = complete.value
            return response
        except (ValueError, IndexError):
            raise not_understood() from None
        if self._closed:
            raise ConnectionError("the server closed the connection")
        return None

    def _parse(self) -> Generator[None, None, Response]:
        while self.status < 200:  # 1xx precedes the answer
            first, *lines = (yield from self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            version, code = first.split(" ", 2)[:2]
            if not version.startswith("HTTP/1."):
                raise ValueError
            self.status = int(code)
        fields = (line.partition(":") for line in lines)
        self.headers = headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        keep = version == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
        if self.status in (204, 304):
            pass
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            yield from self._chunks()
        elif "content-length" in headers:
            yield from self._exactly(int(headers["content-length"]))
        else:
            keep = False
            while not self._closed:
                yield from self._exactly(len(self._received))
                yield
        return Response(self.status, headers, bytes(self.body), keep, repeated=self._repeated)

    def _chunks(self) -> Generator[None, None, None]:
        while size := int((yield from self._until(b"\r\n")).partition(b";")[0], 16):
            yield from self._exactly(size)
            if (yield from self._until(b"\r\n")):
                raise ValueError
        while (yield from self._until(b"\r\n")):
            pass  # trailers

    def _exactly(self, length: int) -> Generator[None, None, None]:
        if length < 0:
            raise ValueError
        while length > 0:
            while not self._received:
                yield
            part = self._received[:length]
            del self._received[:length]
            self.body += part
            length -= len(part)

    def _until(self, end: bytes) -> Generator[None, None, bytes]:
        searched = 0
        while (at := self._received.find(end, searched)) < 0:
            searched = max(0, len(self._received) - len(end) + 1)
            if searched > MAX_HEAD:
                raise ValueError
            yield
        part = bytes(self._received[:at])
        del self._received[: at + len(end)]
        return part
