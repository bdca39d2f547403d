"""Gateways in processes of their own, and a proxy between them and a client."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from unittest import mock

from kvslots._http import Address, Parser

SOURCES = Path(__file__).parent.parent / "src"
PATIENCE = 60.0  # seconds; only a test that fails takes so long

# Leases that are renewed early: a test needs not wait for that, and a busy machine is not too late for it.
renewed_early = mock.patch("kvslots._claims.RENEW_AT", 0.03)

T = TypeVar("T")


class Gateway:
    """One gateway, in front of the NATS server of the tests. It ends with the test."""

    def __init__(self, *flags: str) -> None:
        self._flags = flags
        self._address = "127.0.0.1:0"
        self.scheme = "https" if "--tls-cert" in flags else "http"
        self.start()

    def start(self) -> None:
        """Start the gateway, on the port that it had before."""
        program = os.environ.get("KVSLOTS_TEST_PROGRAM")
        if not program:
            raise unittest.SkipTest("there is no gateway: use go test")
        command = [program, "--http-addr", self._address, "--nats-url", os.environ["KVSLOTS_TEST_NATS_URL"]]
        env = {**os.environ, "KVSLOTS_TEST_AS_GATEWAY": "1"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([*command, *self._flags], stdin=pipe, stdout=pipe, env=env, text=True)
        assert self._process.stdout is not None
        self._address = self._process.stdout.readline().strip()
        assert self._address, "the gateway has ended"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self._address}"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def pause(self) -> None:
        """Stop the process: its connections stay, and it does nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process.poll() is None:
            self.kill()


@dataclass
class Received:
    """A request that a proxy has received."""

    method: str
    path: str
    headers: dict[str, str]
    body: str


Fault = Callable[[Received], str]


class Proxy:
    """Forwards requests, except those for which fault returns "lose": their answers get lost; "drop": they
    get lost themselves; "slow": their answers are late by half a second; "close": the proxy closes the connection after the answer, without
    saying so; "refuse": the answer is 503 of a proxy.
    """

    def __init__(self, url: str) -> None:
        self._target = Address.parse(url)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.fault: Fault = lambda request: ""
        self.received: list[Received] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return "http://127.0.0.1:%d" % self._listener.getsockname()[1]

    def stop(self) -> None:
        self._listener.close()

    def lose_first(self, path: str, times: int = 1, how: str = "lose") -> None:
        """Lose the answers to the first requests whose method and path begin so."""
        left = [how] * times

        def fault(request: Received) -> str:
            return left.pop() if left and f"{request.method} {request.path}".startswith(path) else ""

        self.fault = fault

    def count(self, path: str) -> int:
        return sum(f"{request.method} {request.path}".startswith(path) for request in self.received)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                while self._forward(client):
                    pass
            except OSError:
                pass  # the client or the gateway has hung up

    def _forward(self, client: socket.socket) -> bool:
        """Forward one request and its answer; return whether another one may follow."""
        raw = b""
        while b"\r\n\r\n" not in raw:
            data = client.recv(1 << 16)
            if not data:
                return False
            raw += data
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        while len(body) < int(headers["Content-Length"]):
            body += client.recv(1 << 16)
        method, path, _ = first.split(" ")
        request = Received(method, path, headers, body.decode())
        self.received.append(request)
        fault = self.fault(request)
        if fault == "drop":
            return False
        if fault == "refuse":
            client.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            return True
        with socket.create_connection((self._target.host, self._target.port)) as gateway:
            gateway.sendall(head + b"\r\n\r\n" + body)
            parser, answer, response = Parser(), b"", None
            while response is None:
                readable, _, _ = select.select([client, gateway], [], [])
                if client in readable:  # it has hung up, and so does the proxy
                    return False
                data = gateway.recv(1 << 16)
                answer += data
                response = parser.feed(data)
        if fault == "lose":
            return False
        if fault == "slow":
            time.sleep(0.5)  # a slow network; what is tested does not depend on how slow it is
        client.sendall(answer)
        return fault != "close"


def eventually(condition: Callable[[], T]) -> T:
    """Wait until a condition is met, and return its value."""
    until = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < until, "the condition was not met in time"
        time.sleep(0.01)
    return value


def program(text: str, stderr: int | None = None) -> subprocess.Popen[str]:
    """Start a program in Python, which can import kvslots."""
    env = {**os.environ, "PYTHONPATH": str(SOURCES)}
    command = [sys.executable, "-W", "error", "-c", text]
    return subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)


def line_of(process: subprocess.Popen[str]) -> str:
    """Return the next line that a program prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
