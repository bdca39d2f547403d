"""Runs flows with blocking sockets, in the caller's thread."""

from __future__ import annotations

import atexit
import concurrent.futures
import os
import selectors
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from ._errors import UnreachableError
from ._gateways import Flow, Send, Sleep, T
from ._http import Address, Parser, Response
from ._resolve import resolve

CONNECT_TIMEOUT = 5.0  # seconds
NEXT_ADDRESS = 0.25  # seconds after which the next address of a host is tried, too (RFC 8305, "Connection Attempt Delay")
KEEP_IDLE = 60.0  # seconds; a gateway closes an idle connection after two minutes
MAX_IDLE = 16  # connections to one gateway
KEEPALIVE = 15  # seconds
CLOSED = (ConnectionError, ssl.SSLEOFError)


def run(flow: Flow[T], send: Callable[[Send], Response], sleep: Callable[[float], object] = time.sleep) -> T:
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
            sleep(effect.seconds)
            continue
        try:
            answer = send(effect)
        except UnreachableError as unreachable:
            error = unreachable


def unreachable(gateway: Address, error: OSError) -> UnreachableError:
    """Return the error of a request without an answer."""
    passing = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    text = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
    if isinstance(error, ConnectionError) and error.errno:
        text = os.strerror(error.errno)  # asyncio has a text of its own
    permanent = isinstance(error, ssl.SSLError) and not isinstance(error, passing)
    failed = UnreachableError(f"{gateway}: {text}", permanent=permanent)
    failed.__cause__ = error
    return failed


def keep_alive(sock: socket.socket) -> None:
    """Notice a gateway whose machine has died while a request waits."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE)


class Sockets:
    """Connections to gateways, which are kept for further requests. Safe for concurrent use."""

    def __init__(self, token: str | None, tls: ssl.SSLContext | None) -> None:
        self._idle: dict[Address, list[tuple[socket.socket, float]]] = {}
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
            raise ValueError("the token has characters that a header must not have")
        self.token = token
        self._tls = tls
        self._tls_lock = threading.RLock()
        _all.add(self)

    def __del__(self) -> None:
        self.close()

    def tls(self, gateway: Address) -> ssl.SSLContext | None:
        if gateway.scheme == "http":
            return None
        with self._tls_lock:
            self._tls = self._tls or ssl.create_default_context()
            return self._tls

    def send(self, effect: Send, uses: Callable[[socket.socket], None] = lambda sock: None) -> Response:
        """Return the answer of the gateway; raise UnreachableError without one. It says which connection it uses."""
        until = time.monotonic() + effect.timeout
        request, repeated = effect.gateway.encode(effect.request, self.token), False
        try:
            while sock := self._take(effect.gateway):
                parser = Parser(repeated)
                try:
                    return self._exchange(effect.gateway, sock, request, parser, until, uses)
                except CLOSED:  # the gateway, or a proxy, may have closed it just before
                    if parser.started:
                        raise
                    repeated = True
            sock = self.connect(effect.gateway, until)
            return self._exchange(effect.gateway, sock, request, Parser(repeated), until, uses)
        except OSError as error:
            raise unreachable(effect.gateway, error) from error

    def _take(self, gateway: Address) -> socket.socket | None:
        idle = self._idle.get(gateway, [])
        while idle:
            try:
                sock, since = idle.pop()
            except IndexError:  # another thread has taken it
                break
            if time.monotonic() - since < KEEP_IDLE:
                return sock
            sock.close()
        return None

    def connect(self, gateway: Address, until: float) -> socket.socket:
        until = min(until, time.monotonic() + CONNECT_TIMEOUT)
        sock = _connected(gateway, until)
        try:
            keep_alive(sock)
            if tunnel := gateway.tunnel():
                sock.settimeout(left(until))
                sock.sendall(tunnel)
                answer = b""
                while not tunnelled(answer):
                    sock.settimeout(left(until))
                    answer += sock.recv(1) or hung_up()
            tls = self.tls(gateway)
            sock.settimeout(left(until))
            return sock if tls is None else tls.wrap_socket(sock, server_hostname=gateway.host)
        except BaseException:
            sock.close()
            raise

    def _exchange(
        self,
        gateway: Address,
        sock: socket.socket,
        request: bytes,
        parser: Parser,
        until: float,
        uses: Callable[[socket.socket], None],
    ) -> Response:
        response = None
        try:
            uses(sock)
            sock.settimeout(left(until))
            sock.sendall(request)
            while response is None:
                sock.settimeout(left(until))
                response = parser.feed(sock.recv(1 << 16))
        finally:
            idle = self._idle.setdefault(gateway, [])
            if response is not None and response.reusable and len(idle) < MAX_IDLE:
                idle.append((sock, time.monotonic()))
            else:
                hang_up(sock)
        return response

    def close(self) -> None:
        """Close the idle connections. After a fork this does not end them for the parent."""
        for idle in getattr(self, "_idle", {}).values():
            while idle:
                idle.pop()[0].close()


_all: weakref.WeakSet[Sockets] = weakref.WeakSet()


@atexit.register  # runs after that of _lease, which needs connections
def _close_all() -> None:
    for sockets in list(_all):
        sockets.close()


def _connected(gateway: Address, until: float) -> socket.socket:
    """Return the first connection to an address of a gateway, or of the proxy before it."""
    to = gateway.proxy or gateway
    failed: OSError = TimeoutError()
    begun: set[socket.socket] = set()
    try:
        found = list(resolve(to.host, to.port).result(left(until)))
        while found or begun:
            if found:
                try:
                    begun.add(_connecting(*found.pop(0)))
                except OSError as error:
                    failed = error
                    continue
            for sock in _writable(begun, min(left(until), NEXT_ADDRESS if found else CONNECT_TIMEOUT)):
                begun.discard(sock)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code == 0:
                    return sock
                failed = OSError(code, os.strerror(code))
                sock.close()
    except (TimeoutError, concurrent.futures.TimeoutError):
        pass
    finally:
        for sock in begun:
            sock.close()
    raise failed


def _connecting(family: int, type: int, protocol: int, _: object, address: Any) -> socket.socket:
    sock = socket.socket(family, type, protocol)
    try:
        sock.setblocking(False)
        sock.connect(address)
    except BlockingIOError:
        pass
    except BaseException:
        sock.close()
        raise
    return sock


def _writable(socks: set[socket.socket], timeout: float) -> list[socket.socket]:
    with selectors.DefaultSelector() as selector:
        for sock in socks:
            selector.register(sock, selectors.EVENT_WRITE, sock)
        return [key.data for key, _ in selector.select(timeout)]


def tunnelled(answer: bytes) -> bool:
    """Report whether a proxy has answered; raise if it has refused the tunnel."""
    if not answer.endswith(b"\r\n\r\n"):
        return False
    status = answer.split(b" ", 2)[1:2]
    if status != [b"200"]:
        raise ConnectionError(f"the proxy has answered with {answer.splitlines()[0][:60]!r}")
    return True


def hung_up() -> bytes:
    raise ConnectionError("the server closed the connection")


def hang_up(sock: socket.socket) -> None:
    """Close a connection, even if a forked process has it, too: the gateway must see that."""
    interrupt(sock)
    sock.close()


def interrupt(sock: socket.socket) -> None:
    """End what another thread waits for, which then closes the connection: its number could become that of a new one."""
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        pass  # it was closed by the other side


def left(until: float) -> float:
    """Return the seconds until an instant, or raise TimeoutError after it."""
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds
