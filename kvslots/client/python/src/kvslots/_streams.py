"""Runs flows with asyncio."""

from __future__ import annotations

import asyncio
import socket
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from ._errors import UnreachableError
from ._gateways import Flow, Send, Sleep, T
from ._http import Address, Parser, Response
from ._resolve import resolve
from ._sockets import CLOSED, CONNECT_TIMEOUT, KEEP_IDLE, MAX_IDLE, NEXT_ADDRESS, Sockets, hung_up, keep_alive, tunnelled, unreachable


class Streams:
    """Connections to gateways, in the event loop that uses them."""

    def __init__(self, sockets: Sockets) -> None:
        self._sockets = sockets  # for the token and TLS
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: dict[Address, list[tuple[StreamReader, StreamWriter, float]]] = {}

    @property
    def token(self) -> str | None:
        return self._sockets.token

    async def run(self, flow: Flow[T], attempt: Callable[[Send], Awaitable[Response]] | None = None) -> T:
        """Run a flow to its end, and return its result."""
        answer: Response | None = None
        error: UnreachableError | None = None
        while True:
            try:
                effect = flow.send(answer) if error is None else flow.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            answer = error = None
            if isinstance(effect, Sleep):
                await asyncio.sleep(effect.seconds)
                continue
            try:
                answer = await self._send(effect, attempt or self._attempt)
            except UnreachableError as failed:
                error = failed

    async def _send(self, effect: Send, attempt: Callable[[Send], Awaitable[Response]]) -> Response:
        exchange = asyncio.ensure_future(attempt(effect))
        try:
            await asyncio.wait({exchange}, timeout=max(effect.timeout, 0))
        except asyncio.CancelledError:
            await _cancel(exchange)  # so that the gateway sees the hang-up before what follows
            raise
        if not exchange.done():
            await _cancel(exchange)
            raise unreachable(effect.gateway, TimeoutError())
        try:
            return exchange.result()
        except OSError as error:
            raise unreachable(effect.gateway, error) from error

    async def _attempt(self, effect: Send) -> Response:
        request, repeated = effect.gateway.encode(effect.request, self.token), False
        while idle := self._take(effect.gateway):
            parser = Parser(repeated)
            try:
                return await self._exchange(effect.gateway, *idle, request, parser)
            except CLOSED:  # the gateway, or a proxy, may have closed it just before
                if parser.started:
                    raise
                repeated = True
        return await self._exchange(effect.gateway, *await self.connect(effect.gateway), request, Parser(repeated))

    async def connect(self, gateway: Address) -> tuple[StreamReader, StreamWriter]:
        connecting = asyncio.ensure_future(self._connect(gateway))
        try:
            await asyncio.wait({connecting}, timeout=CONNECT_TIMEOUT)
        finally:
            if not connecting.done():
                connecting.cancel()
        if not connecting.done():
            raise TimeoutError
        return connecting.result()

    async def _connect(self, gateway: Address) -> tuple[StreamReader, StreamWriter]:
        sock = await _connected(gateway)
        try:
            keep_alive(sock)
            loop = asyncio.get_running_loop()
            if tunnel := gateway.tunnel():
                await loop.sock_sendall(sock, tunnel)
                answer = b""
                while not tunnelled(answer):
                    answer += await loop.sock_recv(sock, 1) or hung_up()
            tls = self._sockets.tls(gateway)
            return await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=gateway.host if tls else None)
        except BaseException:
            sock.close()
            raise

    def _take(self, gateway: Address) -> tuple[StreamReader, StreamWriter] | None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # connections belong to the loop that has made them
            self._loop, self._idle = loop, {}
        idle = self._idle.setdefault(gateway, [])
        while idle:
            reader, writer, since = idle.pop()
            if time.monotonic() - since < KEEP_IDLE and not reader.at_eof():
                return reader, writer
            writer.transport.abort()
        return None

    async def _exchange(
        self, gateway: Address, reader: StreamReader, writer: StreamWriter, request: bytes, parser: Parser
    ) -> Response:
        response = None
        try:
            writer.write(request)
            while response is None:
                response = parser.feed(await reader.read(1 << 16))
        finally:
            idle = self._idle.setdefault(gateway, [])
            if response is not None and response.reusable and len(idle) < MAX_IDLE:
                idle.append((reader, writer, time.monotonic()))
            else:
                writer.transport.abort()
        return response

    async def close(self) -> None:
        """Close the idle connections."""
        if self._loop is asyncio.get_running_loop():
            for idle in self._idle.values():
                while idle:
                    idle.pop()[1].close()
            await asyncio.sleep(0)


async def _connected(gateway: Address) -> socket.socket:
    """Return the first connection to an address of a gateway, or of the proxy before it."""
    to = gateway.proxy or gateway
    failed: OSError = TimeoutError()
    found = [*(await asyncio.wrap_future(resolve(to.host, to.port)))]
    begun: set[asyncio.Task[socket.socket]] = set()
    try:
        while found or begun:
            if found:
                begun.add(asyncio.ensure_future(_connect(*found.pop(0))))
            done, _ = await asyncio.wait(begun, timeout=NEXT_ADDRESS if found else None, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                begun.discard(task)
                try:
                    return task.result()
                except OSError as error:
                    failed = error
    finally:
        for task in begun:
            task.add_done_callback(_close)
            task.cancel()
    raise failed


async def _connect(family: int, type: int, protocol: int, _: object, address: Any) -> socket.socket:
    sock = socket.socket(family, type, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
        return sock
    except BaseException:
        sock.close()
        raise


def _close(task: asyncio.Task[socket.socket]) -> None:
    """Close a connection that came too late."""
    if not task.cancelled() and not task.exception():
        task.result().close()


async def _cancel(task: asyncio.Future[Any]) -> None:
    """Cancel a request, and let the loop close its connection."""
    task.cancel()
    await asyncio.wait({task}, timeout=1)
    if task.done() and not task.cancelled():
        task.exception()  # it has been retrieved
    await asyncio.sleep(0)


async def settled(future: Future[Any], timeout: float) -> None:
    """Wait until what runs in a thread has ended. If the task is canceled, the thread goes on."""
    wrapped = asyncio.wrap_future(future)
    try:
        await asyncio.wait({wrapped}, timeout=timeout)
    finally:
        if not wrapped.done():
            wrapped.cancel()
        elif not wrapped.cancelled():
            wrapped.exception()
