"""Gateways, name servers and proxies that do not answer, or answer late."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import unittest
import uuid
from collections.abc import Callable
from typing import Any
from unittest import mock

import kvslots
from kvslots import _sockets, _streams
from kvslots._http import Address, loopback
from tests.fixture import GatewayTest
from tests.gateways import PATIENCE

BOUND = 3.0  # seconds after the wait


class Silence(unittest.TestCase):
    def setUp(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.url = "http://127.0.0.1:%d" % listener.getsockname()[1]

    def bounded(self, call: Callable[[], object], seconds: float = BOUND) -> None:
        before = time.monotonic()
        with self.assertRaises(kvslots.UnreachableError):
            call()
        self.assertLess(time.monotonic() - before, seconds)

    def test_calls_end_in_time(self) -> None:
        with kvslots.Client(self.url, timeout=1) as client:
            pool = client.pool(uuid.uuid4())
            self.bounded(pool.borrow(wait=0).acquire)
            self.bounded(client.lock("a", wait=0).acquire)
            self.bounded(client.lock("a", wait=1).acquire, 1 + BOUND)
            self.bounded(pool.inspect)

    def test_calls_of_asyncio_end_in_time(self) -> None:
        asyncio.run(self.bounded_too(kvslots.AsyncClient(self.url)))

    async def bounded_too(self, client: kvslots.AsyncClient) -> None:
        before = time.monotonic()
        with self.assertRaises(kvslots.UnreachableError):
            await client.lock("a", wait=0).acquire()
        self.assertLess(time.monotonic() - before, BOUND)
        await client.close()

    def test_a_slow_name_server_ends_no_call_late(self) -> None:
        over = threading.Event()
        self.addCleanup(over.set)
        getaddrinfo = socket.getaddrinfo

        def slow(host: Any, *args: Any, **kwargs: Any) -> Any:
            if host == "gateway.example":
                if kwargs.get("flags"):
                    raise socket.gaierror
                over.wait(PATIENCE)
            return getaddrinfo(host, *args, **kwargs)

        with mock.patch("socket.getaddrinfo", slow), kvslots.Client("http://gateway.example") as client:
            self.bounded(client.lock("a", wait=0).acquire)
            asyncio.run(self.bounded_too(kvslots.AsyncClient("http://gateway.example")))


class Addresses(unittest.TestCase):
    """Hosts with several addresses, and closed ports."""

    def setUp(self) -> None:
        self.closed = socket.socket()  # bound, and not listening
        self.closed.bind(("127.0.0.1", 0))
        self.addCleanup(self.closed.close)
        self.url = "http://127.0.0.1:%d" % self.closed.getsockname()[1]

    def test_a_closed_port_says_so(self) -> None:
        for wait in (0, 0.5):
            with self.subTest(wait=wait):
                with kvslots.Client(self.url) as client, self.assertRaisesRegex(kvslots.UnreachableError, "refused$"):
                    client.lock("a", wait=wait).acquire()
                with self.assertRaisesRegex(kvslots.UnreachableError, "refused$"):
                    asyncio.run(self.acquire(self.url, wait))

    async def acquire(self, url: str, wait: float) -> None:
        async with kvslots.AsyncClient(url) as client:
            await client.lock("a", wait=wait).acquire()

    def test_an_address_that_swallows_packets_does_not_hide_the_next_one(self) -> None:
        full = socket.create_server(("127.0.0.1", 0), backlog=0)  # its queue is full: Linux drops what comes
        self.addCleanup(full.close)
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
            self.addCleanup(filler.close)
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in (full.getsockname(), self.closed.getsockname(), listener.getsockname())]
        gateway = Address.parse("http://gateway.example")
        with mock.patch("kvslots._resolve.socket.getaddrinfo", return_value=found):
            before = time.monotonic()
            sock = _sockets._connected(gateway, before + PATIENCE)
            other = asyncio.run(_streams._connected(gateway))
            with sock, other:
                self.assertEqual((sock.getpeername(), other.getpeername()), (listener.getsockname(),) * 2)

    def test_loopback(self) -> None:
        for host in ("localhost", "a.localhost", "localhost.", "127.0.0.1", "127.8.9.1", "127.1", "::1", "::ffff:127.0.0.1"):
            self.assertTrue(loopback(host), host)
        for host in ("localhost.example", "128.0.0.1", "::2", "127.example", "10.0.0.1"):
            self.assertFalse(loopback(host), host)


class Proxies(GatewayTest):
    """A proxy of the environment, as the standard library uses it."""

    def setUp(self) -> None:
        super().setUp()
        self.asked: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)
        threading.Thread(target=self.accept, daemon=True).start()
        self.proxy = "http://user:hunter2@127.0.0.1:%d" % self.listener.getsockname()[1]

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client:
                head = client.recv(1 << 16).decode()
                self.asked.append(head)
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    def test_requests(self) -> None:
        environment = {"http_proxy": self.proxy, "https_proxy": self.proxy}
        with mock.patch.dict("os.environ", environment):
            with kvslots.Client(self.gateway.url) as direct:
                direct.pool(self.uuid).inspect()
            for url, target in (("http://g.example:81", "GET http://g.example:81/l/self "), ("https://g.example", "CONNECT g.example:443 ")):
                with self.subTest(url), kvslots.Client(url, timeout=1) as client:
                    with self.assertRaises(kvslots.KvslotsError) as raised:
                        client.pool(self.uuid).inspect()
                    self.assertIn("407", str(raised.exception))
                    self.assertNotIn("hunter2", repr(raised.exception))
                    self.assertTrue(self.asked[-1].startswith(target), self.asked[-1])
                    self.assertIn("Proxy-Authorization: Basic dXNlcjpodW50ZXIy", self.asked[-1])


if __name__ == "__main__":
    unittest.main()
