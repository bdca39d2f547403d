"""What the tests without asyncio have in common."""

from __future__ import annotations

import unittest
import uuid

import kvslots
from tests.gateways import Gateway, Proxy, eventually


class GatewayTest(unittest.TestCase):
    """Tests with one gateway, a client of it, and a pool of one slot."""

    gateway: Gateway

    @classmethod
    def setUpClass(cls) -> None:
        cls.gateway = Gateway()
        cls.addClassCleanup(cls.gateway.stop)

    def setUp(self) -> None:
        self.client = self.dial(self.gateway.url)
        self.uuid = uuid.uuid4()
        self.pool = self.client.pool(self.uuid)
        self.pool.register(1)

    def dial(self, *urls: str) -> kvslots.Client:
        client = kvslots.Client(*urls)
        self.addCleanup(client.close)
        return client

    def through_proxy(self) -> tuple[Proxy, kvslots.Client]:
        proxy = Proxy(self.gateway.url)
        self.addCleanup(proxy.stop)
        return proxy, self.dial(proxy.url)

    def wait_for_waiters(self, count: int, pool: kvslots.Pool | None = None) -> None:
        eventually(lambda: (pool or self.pool).inspect().waiting == count)
