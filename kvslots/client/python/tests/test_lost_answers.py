"""Answers that get lost."""

from __future__ import annotations

import asyncio
import threading
import unittest
import uuid
from unittest import mock

import kvslots
from kvslots import _pools
from kvslots._sockets import run
from tests.fixture import GatewayTest
from tests.gateways import PATIENCE, eventually, renewed_early


class LostAnswers(GatewayTest):
    """Whatever gets lost, a call is repeated, and takes one slot."""

    def setUp(self) -> None:
        super().setUp()
        self.pool.register(5)
        self.state = self.pool.inspect
        self.direct = self.client
        self.proxy, self.client = self.through_proxy()

    faults = ("lose", "drop", "refuse")

    def test_borrow(self) -> None:
        for how in self.faults:
            for times in (1, 3):
                with self.subTest(how=how, times=times):
                    self.proxy.lose_first("POST /l/self/borrow", times, how)
                    with self.client.pool(self.uuid).borrow(wait=PATIENCE) as lease:
                        self.assertEqual((lease.position, self.state().in_use), (0, 1))
                    self.assertEqual(self.state().in_use, 0)

    def test_borrow_with_asyncio(self) -> None:
        async def hold() -> None:
            async with kvslots.AsyncClient(self.proxy.url) as client:
                for how in self.faults:
                    self.proxy.lose_first("POST /l/self/borrow", 2, how)
                    async with client.pool(self.uuid).borrow(wait=PATIENCE):
                        self.assertEqual(self.state().in_use, 1)
                    self.assertEqual(self.state().in_use, 0)

        asyncio.run(hold())

    @renewed_early
    def test_renew_and_return(self) -> None:
        for how in self.faults:
            with self.subTest(how=how):
                self.proxy.lose_first("POST /l/self/renew", 1, how)
                renewals = self.proxy.count("POST /l/self/renew")
                with self.client.pool(self.uuid).borrow() as lease:
                    eventually(lambda: self.proxy.count("POST /l/self/renew") > renewals + 1)
                    self.assertIsNone(lease.lost.cause)
                    self.proxy.lose_first("POST /l/self/return", 1, how)
                self.assertEqual(self.state().in_use, 0)

    def test_register_and_the_rest(self) -> None:
        pool = self.client.pool(uuid.uuid4())
        for how in self.faults:
            with self.subTest(how=how):
                self.proxy.lose_first("PUT", 2, how)
                self.assertEqual(pool.register(3).count, 3)
                self.proxy.lose_first("GET", 2, how)
                self.assertEqual(pool.inspect().count, 3)
                self.proxy.lose_first("DELETE", 2, how)
                pool.delete()
        keys = [r.headers["Idempotency-Key"] for r in self.proxy.received if r.method == "PUT"]
        self.assertEqual((len(keys), len(set(keys))), (9, 3))

    def test_locks(self) -> None:
        for path in ("POST /v1/sessions", "POST /v1/locks", "POST /v1/locks/a/release", "DELETE /v1/sessions"):
            for how in self.faults:
                with self.subTest(path=path, how=how), self.dial(self.proxy.url) as client:
                    name = "a" if "release" in path else str(uuid.uuid4())
                    self.proxy.lose_first(path, 1, how)
                    with client.lock(name, wait=PATIENCE):
                        with self.assertRaises(kvslots.NoSlotError):
                            self.direct.lock(name, wait=0).acquire()
                    with self.direct.lock(name, wait=0):
                        pass

    def test_connections_that_were_closed_meanwhile_are_replaced_at_once(self) -> None:
        self.proxy.fault = lambda request: "close"
        many = threading.Barrier(3)

        def inspect() -> None:
            many.wait(PATIENCE)
            self.client.pool(self.uuid).inspect()

        for _ in range(5):
            threads = [threading.Thread(target=inspect) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            flow = _pools.inspect(self.client._gateways, {"Kvslots-Pool": str(self.uuid)})
            never = mock.Mock(side_effect=AssertionError("there was a pause"))
            self.assertEqual(run(flow, self.client._sockets.send, never).count, 5)

    def test_connections_of_asyncio_too(self) -> None:
        async def use() -> None:
            self.proxy.fault = lambda request: "close"
            async with kvslots.AsyncClient(self.proxy.url) as client:
                pool = client.pool(self.uuid)
                for _ in range(5):
                    await asyncio.gather(*(pool.inspect() for _ in range(3)))
                    with mock.patch("kvslots._gateways.Sleep", side_effect=AssertionError("there was a pause")):
                        await pool.inspect()

        asyncio.run(use())

    def test_a_grant_is_found_when_the_wait_is_over(self) -> None:
        """Its answer is lost again and again, but not that to the last request, which does not wait."""
        self.proxy.fault = lambda request: "lose" if '"wait": 1' in request.body else ""
        pool = self.client.pool(self.uuid)
        with pool.borrow(wait=1) as lease:
            self.assertEqual((lease.position, self.state().in_use), (0, 1))
        self.assertEqual(self.state().in_use, 0)


if __name__ == "__main__":
    unittest.main()
