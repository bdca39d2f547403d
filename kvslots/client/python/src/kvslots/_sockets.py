"""Runs flows with blocking sockets, in the caller's thread."""

from __future__ import annotations

import atexit
import concurrent.futures
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable

from ._errors import UnreachableError
from ._gateways import Flow, Send, Sleep, T
from ._http import Address, Parser, Response
from ._resolve import resolve

CONNECT_TIMEOUT = 5.0  # seconds
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
        self._tls_lock = threading.Lock()
        _all.add(self)

    def __del__(self) -> None:
        self.close()

    def tls(self, gateway: Address) -> ssl.SSLContext | None:
        if gateway.scheme == "http":
            return None
        with self._tls_lock:
            self._tls = self._tls or ssl.create_default_context()
            return self._tls

    def send(self, effect: Send) -> Response:
        """Return the answer of the gateway; raise UnreachableError without one."""
        until = time.monotonic() + effect.timeout
        request, repeated = effect.gateway.encode(effect.request, self.token), False
        try:
            while sock := self._take(effect.gateway):
                parser = Parser(repeated)
                try:
                    return self._exchange(effect.gateway, sock, request, parser, until)
                except CLOSED:  # the gateway, or a proxy, may have closed it just before
                    if parser.started:
                        raise
                    repeated = True
            return self._exchange(effect.gateway, self.connect(effect.gateway, until), request, Parser(repeated), until)
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
        self, gateway: Address, sock: socket.socket, request: bytes, parser: Parser, until: float
    ) -> Response:
        response = None
        try:
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
    """Return a connection to a gateway, or to the proxy before it."""
    to = gateway.proxy or gateway
    failed: OSError = TimeoutError()
    try:
        found = resolve(to.host, to.port).result(left(until))
    except concurrent.futures.TimeoutError:
        raise failed from None
    for family, type, protocol, _, address in found:
        sock = socket.socket(family, type, protocol)
        try:
            sock.settimeout(left(until))
            sock.connect(address)
            return sock
        except OSError as error:
            sock.close()
            failed = error
    raise failed


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
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was closed by the other side
    sock.close()


def left(until: float) -> float:
    """Return the seconds until an instant, or raise TimeoutError after it."""
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds
