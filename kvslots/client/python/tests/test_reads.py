"""Who holds what, and who waits for it."""

from __future__ import annotations

import threading
import unittest
import uuid
from collections.abc import Callable
from typing import Any
from unittest import mock

import kvslots
from kvslots._label import default_label
from tests.fixture import GatewayTest
from tests.gateways import PATIENCE, Gateway, Proxy, eventually, program, renewed_early


class Reads(GatewayTest):
    def wait_in_line(self, borrow: kvslots.Borrow[Any]) -> threading.Thread:
        """Return a thread that waits, and releases what it is granted."""

        def body() -> None:
            with borrow:
                pass

        thread = threading.Thread(target=body)
        before = len(borrow.line())
        thread.start()
        eventually(lambda: len(borrow.line()) > before)
        return thread

    def test_a_pool(self) -> None:
        self.pool.register(2, name="screens")
        self.assertEqual((self.pool.holders(), self.pool.line()), ([], []))
        with self.pool.borrow(ttl=60, label="ci@b7:12 <make> ü") as first, self.pool.borrow() as second:
            labelled, other = self.pool.holders()
            self.assertEqual((labelled.position, labelled.fence), (first.position, first.fence))
            self.assertEqual((labelled.label, other.label, other.fence), ("ci@b7:12 <make> ü", default_label(), second.fence))
            self.assertIsNone(labelled.owner)
            self.assertTrue(0 <= labelled.age < PATIENCE and 0 < labelled.expires_in <= 60)
            threads = [self.wait_in_line(self.pool.borrow(wait=PATIENCE, label=label)) for label in ("a", "b")]
            line = self.pool.line()
            self.assertEqual([(w.place, w.label, w.owner) for w in line], [(1, "a", None), (2, "b", None)])
            self.assertGreaterEqual(line[0].waited, line[1].waited)
        for thread in threads:
            thread.join()

    def test_pages(self) -> None:
        self.pool.register(3)
        with mock.patch("kvslots._reads.PAGE", 1), self.pool.borrow(), self.pool.borrow(), self.pool.borrow():
            threads = [self.wait_in_line(self.pool.borrow(wait=PATIENCE)) for _ in range(3)]
            self.assertEqual([holder.position for holder in self.pool.holders()], [0, 1, 2])
            self.assertEqual([waiter.place for waiter in self.pool.line()], [1, 2, 3])
        for thread in threads:
            thread.join()

    def test_names(self) -> None:
        name = f"ü/{self.uuid}"
        lock, semaphore = self.client.lock(name, label="me"), self.client.semaphore(f"{name}2", 2, label="you")
        for named, label in ((lock, "me"), (semaphore, "you")):
            with self.subTest(label):
                self.assertEqual((named.holders(), named.line()), ([], []))
                with named as lease:
                    (holder,) = named.holders()
                    self.assertEqual((holder.label, holder.fence), (label, lease.fence))
                    self.assertIsNotNone(holder.owner)
        with lock:
            thread = self.wait_in_line(self.client.lock(name, wait=PATIENCE, label="next"))
            (waiter,) = lock.line()
            self.assertEqual((waiter.place, waiter.label), (1, "next"))
        thread.join()

    @renewed_early
    def test_evict(self) -> None:
        borrows: list[kvslots.Borrow[Any]] = [self.pool.borrow(), self.client.lock(str(self.uuid))]
        for borrow in borrows:
            with self.subTest():
                lease = borrow.acquire()
                (holder,) = borrow.holders()
                with self.assertRaises(kvslots.OtherHolderError):
                    borrow.evict(holder.position, holder.fence - 1)
                self.assertEqual(borrow.evict(holder.position, holder.fence).fence, lease.fence)
                with self.assertRaises((kvslots.NotHeldError, kvslots.NoPoolError)):
                    borrow.evict(holder.position, holder.fence)
                self.assertTrue(lease.lost.wait(PATIENCE))
                assert isinstance(lease.lost.cause, kvslots.NotHeldError)
                self.assertEqual(lease.lost.cause.cause, "evicted")
                with self.assertRaisesRegex(kvslots.LeaseLostError, "^the lease was lost: an operator has ended it$"):
                    lease.extend()
                self.assertFalse(lease.release())

    def test_a_pool_that_is_not_registered(self) -> None:
        pool = self.client.pool(uuid.uuid4())
        with self.assertRaises(kvslots.NoPoolError):
            pool.holders()
        with self.assertRaises(kvslots.NoPoolError):
            pool.line()
        with self.assertRaises(kvslots.NoPoolError):
            pool.evict(0, 1)

    def test_refused_texts(self) -> None:
        calls: list[tuple[str, Callable[[], object]]] = [
            ("label", lambda: self.pool.borrow(label="a\nb").acquire()),
            ("label", lambda: self.client.lock(str(self.uuid), label="x" * 65).acquire()),
            ("name", lambda: self.pool.register(1, name="x" * 65)),
        ]
        for field, call in calls:
            with self.assertRaises(kvslots.BadRequestError) as raised:
                call()
            self.assertEqual(raised.exception.field, field)


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_reads(self) -> None:
        gateway = Gateway()
        self.addCleanup(gateway.stop)
        async with kvslots.AsyncClient(gateway.url) as client:
            id = uuid.uuid4()
            pool, lock = client.pool(id), client.lock(str(id), label="me")
            await pool.register(1, name="screens")
            async with pool.borrow(label="you") as lease, lock, client.semaphore(f"{id}2", 2, label="she") as third:
                (holder,) = await pool.holders()
                self.assertEqual((holder.label, holder.fence, await pool.line()), ("you", lease.fence, []))
                self.assertEqual([h.label for h in await lock.holders()], ["me"])
                (shared,) = await client.semaphore(f"{id}2", 2).holders()
                self.assertEqual((shared.label, shared.fence), ("she", third.fence))
            lease = await pool.borrow().acquire()
            self.assertEqual((await pool.evict(0, lease.fence)).fence, lease.fence)
            self.assertEqual(await pool.holders(), [])
            await lease.release()


if __name__ == "__main__":
    unittest.main()
