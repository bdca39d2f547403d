"""HTTP/1.1 without I/O: encodes requests, and parses answers from the bytes that arrive."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import time
from typing import Any
from urllib.parse import urlsplit

from ._errors import KvslotsError, UnreachableError, refusal

MAX_ANSWER = 1 << 20  # bytes


@dataclass(frozen=True, repr=False)  # a path or a header may contain a credential
class Request:
    method: str
    path: str
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Address:
    """The URL of a gateway, or of a proxy in front of gateways."""

    scheme: str
    host: str
    port: int
    path: str

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
        return cls(parts.scheme, parts.hostname, port or default, parts.path.rstrip("/"))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def encode(self, request: Request, token: str | None) -> bytes:
        """Return a request in bytes."""
        body = b"" if request.body is None else json.dumps(request.body).encode()
        headers = {"Host": str(self).partition("://")[2], "Content-Length": str(len(body)), **request.headers}
        if body:
            headers["Content-Type"] = "application/json"
        if token:
            headers["Authorization"] = f"Bearer {token}"
        lines = [f"{request.method} {self.path}{request.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join([*lines, "\r\n"]).encode("latin-1") + body


@dataclass(frozen=True, repr=False)
class Response:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes
    reusable: bool  # the connection can take another request
    sent: float = 0.0  # when the request was sent, on the clock of leases

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
        return refusal(
            get("kvslots-error", ""), text, self.status, self._retry_after(),
            get("kvslots-field", ""), get("kvslots-range", ""),
        )  # fmt: skip

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
    """Parses the answer to one request."""

    def __init__(self) -> None:
        self._received = bytearray()

    @property
    def started(self) -> bool:
        return bool(self._received)

    def feed(self, data: bytes) -> Response | None:
        """Take bytes, or b"" if the server has closed the connection; return the answer once it is complete.

        Raises ConnectionError if it ends too early, and UnreachableError if it is not HTTP.
        """
        self._received += data
        if len(self._received) > MAX_ANSWER:
            raise not_understood()
        try:
            response = self._parse(closed=not data)
        except (ValueError, IndexError):
            raise not_understood() from None
        if response is None and not data:
            raise ConnectionError("the server closed the connection")
        return response

    def _parse(self, closed: bool) -> Response | None:
        while True:
            head, end, rest = bytes(self._received).partition(b"\r\n\r\n")
            if not end:
                if not head.startswith(b"HTTP/1."[: len(head)]):
                    raise ValueError
                return None
            first, *lines = head.decode("latin-1").split("\r\n")
            version, code = first.split(" ", 2)[:2]
            status = int(code)
            if not version.startswith("HTTP/1."):
                raise ValueError
            if status >= 200:
                break
            self._received = bytearray(rest)  # 1xx precedes the answer
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        keep = version == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
        if status in (204, 304):
            body: bytes | None = b""
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            body = _join_chunks(rest)
        elif "content-length" in headers:
            length = int(headers["content-length"])
            if length < 0:
                raise ValueError
            body = rest[:length] if len(rest) >= length else None
        else:
            body, keep = (rest if closed else None), False
        return None if body is None else Response(status, headers, body, keep)


def _join_chunks(rest: bytes) -> bytes | None:
    """Return the body of a chunked answer, or None if it is not complete."""
    body = b""
    while True:
        line, end, rest = rest.partition(b"\r\n")
        if not end:
            return None
        size = int(line.partition(b";")[0], 16)
        if size == 0:  # followed by trailers, if any, and an empty line
            return body if rest.startswith(b"\r\n") or b"\r\n\r\n" in rest else None
        if len(rest) < size + 2:
            return None
        body, rest = body + rest[:size], rest[size + 2 :]
