"""The events of a gateway's server-sent stream, with blocking sockets."""

from __future__ import annotations

import http.client
import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ._core import Gateways, Pauses, Send
from ._errors import KvslotsError, UnreachableError
from ._http import MAX_ANSWER, Request, Response, not_understood
from ._sockets import Sockets, hang_up, run

SILENCE = 45.0  # seconds after which a stream counts as broken: a gateway sends something every 15
MAX_LINE = 1 << 16  # bytes


@dataclass(frozen=True)
class Event:
    """Something that has happened. type is such as "granted"; the manual of the gateway has all.

    After "starts_over", what was read before is out of date. id is the same at every gateway, and
    several events may share it. kind is that of the pool: "pool", "lock" or "semaphore". What does not
    apply is None, or "". waited and held are in seconds.
    """

    id: int
    type: str
    at: str
    hash: str
    kind: str
    name: str
    key: str
    position: int | None
    fence: int | None
    label: str
    waited: float | None
    held: float | None


def path(base: str, filters: dict[str, tuple[str, ...]]) -> str:
    """Return the path of a stream of some events."""
    query = "&".join(f"{name}={quote(value, safe='')}" for name, values in filters.items() for value in values)
    return f"{base}?{query}" if query else base


class Events(Iterator[Event]):
    """The events from now on, without an end. A stream that is lost goes on at the next gateway.

    last_id is what to go on after later. close, which any thread may call, ends the iteration.
    """

    def __init__(
        self, gateways: Gateways, sockets: Sockets, path: str, headers: dict[str, str], after: int | None
    ) -> None:
        self.last_id = after
        self._gateways, self._sockets = gateways, sockets
        self._path, self._headers = path, headers
        self._stream: http.client.HTTPResponse | None = None
        self._held: list[Event] = []  # events whose id has not come: they would be repeated
        self._told: deque[Event] = deque()
        self._pauses = Pauses()
        self._closed = False

    def __next__(self) -> Event:
        while not self._told:
            if self._closed:
                raise StopIteration
            try:
                if self._stream is None:
                    headers = dict(self._headers, Accept="text/event-stream")
                    if self.last_id is not None:
                        headers["Last-Event-ID"] = str(self.last_id)
                    run(self._gateways.ask(Request("GET", self._path, headers=headers)), self._open)
                self._read()
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                self._lost(UnreachableError("the stream of events has ended"))
            except KvslotsError as error:
                if not error.temporary:
                    self._hang_up()
                    raise
                self._lost(error)
        return self._told.popleft()

    def _open(self, effect: Send) -> Response:
        """Send a request, and keep the stream if that is the answer."""
        until = time.monotonic() + effect.timeout
        sock = self._sockets.connect(effect.gateway, until)
        try:
            sock.sendall(effect.gateway.encode(effect.request, self._sockets.token))
            sock.settimeout(SILENCE)
            stream = http.client.HTTPResponse(sock)
            stream.begin()
            headers = {name.lower(): value for name, value in stream.getheaders()}
            if stream.status == 200 and headers.get("content-type", "").startswith("text/event-stream"):
                self._stream, self._sock = stream, sock
                return Response(200, headers, b"{}", False)
            body = stream.read(MAX_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            hang_up(sock)
            raise UnreachableError(f"{effect.gateway}: {error or 'no answer'}") from error
        hang_up(sock)
        return Response(stream.status, headers, body, False)

    def _read(self) -> None:
        """Read up to the next empty line."""
        data: list[str] = []
        id: int | None = None
        while True:
            assert self._stream is not None
            line = self._stream.readline(MAX_LINE)
            if not line.endswith(b"\n"):
                raise ConnectionError
            name, _, value = line.decode().rstrip("\r\n").partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                data.append(value)
            elif name == "id":
                id = int(value)
            elif not name and not value:
                break
        if data:
            event = _event(json.loads("\n".join(data)))
            self._held.append(event)
            if event.type == "starts_over" and id is None:
                self._tell()
        if id is not None:
            self.last_id = id
            self._tell()

    def _tell(self) -> None:
        self._pauses = Pauses()
        self._told.extend(self._held)
        self._held.clear()

    def _lost(self, error: KvslotsError) -> None:
        self._hang_up()
        if not self._closed:
            time.sleep(self._pauses.after(error))

    def _hang_up(self) -> None:
        self._held.clear()
        stream, self._stream = self._stream, None
        if stream is not None:
            hang_up(self._sock)
            stream.close()

    def close(self) -> None:
        """End the iteration, also one that waits in another thread."""
        self._closed = True
        if self._stream is not None:
            hang_up(self._sock)

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _event(body: Any) -> Event:
    if not isinstance(body, dict) or not isinstance(body.get("id"), int) or not isinstance(body.get("type"), str):
        raise not_understood()
    texts = {name: str(body.get(name, "")) for name in ("at", "hash", "kind", "name", "key", "label")}
    return Event(
        id=body["id"], type=body["type"], position=body.get("position"), fence=body.get("fence"),
        waited=body.get("waited_s"), held=body.get("held_s"), **texts,
    )  # fmt: skip
