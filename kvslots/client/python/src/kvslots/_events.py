"""The events of a gateway's server-sent stream, with blocking sockets or asyncio."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ._errors import KvslotsError, UnreachableError
from ._gateways import Gateways, Pauses, Send
from ._http import Parser, Request, Response, not_understood
from ._sockets import Sockets, hang_up, interrupt, left, run, unreachable
from ._streams import Streams

SILENCE = 45.0  # seconds after which a stream counts as broken: a gateway sends something every 15
MAX_LINE = 1 << 16  # bytes


@dataclass(frozen=True)
class Event:
    """Something that has happened. type is such as "granted"; the manual of the gateway has all.

    After "starts_over", what was read before is out of date. id is the same at every gateway, and
    several events may share it. kind is that of the pool: "pool", "lock" or "semaphore". What does not
    apply is None, or "". waited and held are in seconds. by names the token of the operator who did it.
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
    by: str


class _Events:
    """What is read of a stream, which begins again after it was lost."""

    def __init__(self, gateways: Gateways, path: str, headers: dict[str, str], after: int | None) -> None:
        self.last_id = after
        self._gateways, self._path, self._headers = gateways, path, headers
        self._told: deque[Event] = deque()
        self._pauses = Pauses()
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._parser = Parser()
        self._rest = b""  # of a line
        self._data: list[str] = []
        self._id: int | None = None
        self._held: list[Event] = []  # events whose id has not come: they would be repeated

    def _request(self) -> Request:
        headers = dict(self._headers, Accept="text/event-stream")
        if self.last_id is not None:
            headers["Last-Event-ID"] = str(self.last_id)
        return Request("GET", self._path, headers=headers)

    def _opened(self) -> Response | None:
        """Return a success once the answer is known to be a stream."""
        headers = self._parser.headers
        if self._parser.status == 200 and (headers or {}).get("content-type", "").startswith("text/event-stream"):
            return Response(200, headers or {}, b"{}", False)
        return None

    def _take(self, data: bytes = b"") -> None:
        """Take bytes of the stream."""
        if data and self._parser.feed(data) is not None:
            raise ConnectionError("the stream has ended")
        lines = (self._rest + self._parser.body).split(b"\n")
        self._parser.body.clear()
        self._rest = lines.pop()
        if len(self._rest) > MAX_LINE:
            raise not_understood()
        for line in lines:
            try:
                self._line(line.decode().rstrip("\r"))
            except ValueError:
                raise not_understood() from None

    def _line(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = int(value)
        elif not line:
            data, self._data = self._data, []
            id, self._id = self._id, None
            if data:
                self._held.append(_event(json.loads("\n".join(data))))
            if id is not None or (data and self._held[-1].type == "starts_over"):
                self.last_id = id if id is not None else self.last_id
                self._pauses = Pauses()
                self._told.extend(self._held)
                self._held.clear()

    def _pause(self, error: KvslotsError) -> float:
        """Begin again, and return after how long; raise what is final."""
        self._begin()
        if not error.temporary:
            raise error
        return self._pauses.after(error)


class Events(_Events, Iterator[Event]):
    """The events from now on, without an end. A stream that is lost goes on at the next gateway.

    last_id is what to go on after later. close, which any thread may call, ends the iteration.
    """

    _sock: socket.socket | None = None
    _waits = False  # in a thread, which closes the connection itself

    def __init__(
        self, gateways: Gateways, sockets: Sockets, path: str, headers: dict[str, str], after: int | None
    ) -> None:
        super().__init__(gateways, path, headers, after)
        self._sockets = sockets

    def __next__(self) -> Event:
        while not self._told:
            self._waits = True
            try:
                if self._closed:
                    self._hang_up()  # end may have seen that this thread waits, and left it to it
                    raise StopIteration
                if self._sock is None:
                    run(self._gateways.ask(self._request()), self._open)
                else:
                    self._take(self._sock.recv(1 << 16) or _ended())
            except OSError:
                self._lost(UnreachableError("the stream of events has ended"))
            except KvslotsError as error:
                self._lost(error)
            finally:
                self._waits = False
        return self._told.popleft()

    def _open(self, effect: Send) -> Response:
        """Send a request, and keep the stream if that is the answer."""
        self._begin()
        until = time.monotonic() + effect.timeout
        try:
            self._sock = sock = self._sockets.connect(effect.gateway, until)
            if self._closed:  # end has not seen the connection
                _ended()
            sock.sendall(effect.gateway.encode(effect.request, self._sockets.token))
            response = None
            while response is None:
                sock.settimeout(left(until))
                response = self._parser.feed(sock.recv(1 << 16)) or self._opened()
        except OSError as error:
            self._hang_up()
            raise unreachable(effect.gateway, error) from error
        if self._opened():
            sock.settimeout(SILENCE)
            self._take()
        else:
            self._hang_up()
        return response

    def _lost(self, error: KvslotsError) -> None:
        self._hang_up()
        pause = self._pause(error)
        if not self._closed:
            time.sleep(pause)

    def _hang_up(self) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            hang_up(sock)

    def end(self) -> None:
        """End the iteration, also one that waits in another thread."""
        self._closed = True
        if (sock := self._sock) is not None:
            (interrupt if self._waits else hang_up)(sock)

    close = end

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncEvents(_Events, AsyncIterator[Event]):
    """Events, for asyncio."""

    _writer: asyncio.StreamWriter | None = None

    def __init__(
        self, gateways: Gateways, streams: Streams, path: str, headers: dict[str, str], after: int | None
    ) -> None:
        super().__init__(gateways, path, headers, after)
        self._streams = streams

    async def __anext__(self) -> Event:
        while not self._told:
            if self._closed:
                raise StopAsyncIteration
            try:
                if self._writer is None:
                    await self._streams.run(self._gateways.ask(self._request()), self._open)
                else:
                    self._take(await asyncio.wait_for(self._reader.read(1 << 16), SILENCE) or _ended())
            except (OSError, asyncio.TimeoutError):
                await self._lost(UnreachableError("the stream of events has ended"))
            except KvslotsError as error:
                await self._lost(error)
        return self._told.popleft()

    async def _open(self, effect: Send) -> Response:
        self._begin()
        try:
            self._reader, self._writer = await self._streams.connect(effect.gateway)
            if self._closed:
                _ended()
            self._writer.write(effect.gateway.encode(effect.request, self._streams.token))
            response = None
            while response is None:
                response = self._parser.feed(await self._reader.read(1 << 16)) or self._opened()
        except BaseException:
            self._hang_up()
            raise
        if self._opened():
            self._take()
        else:
            self._hang_up()
        return response

    async def _lost(self, error: KvslotsError) -> None:
        self._hang_up()
        pause = self._pause(error)
        if not self._closed:
            await asyncio.sleep(pause)

    def _hang_up(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()

    def end(self) -> None:
        self._closed = True
        self._hang_up()

    async def close(self) -> None:
        """End the iteration, also one that waits in another task."""
        self.end()
        await asyncio.sleep(0)

    async def __aenter__(self) -> AsyncEvents:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _ended() -> bytes:
    raise ConnectionError("the stream has ended")


def path(base: str, filters: dict[str, tuple[str, ...]]) -> str:
    """Return the path of a stream of some events."""
    query = "&".join(f"{name}={quote(value, safe='')}" for name, values in filters.items() for value in values)
    return f"{base}?{query}" if query else base


def _event(body: Any) -> Event:
    if not isinstance(body, dict) or not isinstance(body.get("id"), int) or not isinstance(body.get("type"), str):
        raise not_understood()
    texts = {name: str(body.get(name, "")) for name in ("at", "hash", "kind", "name", "key", "label", "by")}
    return Event(
        id=body["id"], type=body["type"], position=body.get("position"), fence=body.get("fence"),
        waited=body.get("waited_s"), held=body.get("held_s"), **texts,
    )  # fmt: skip
