"""What programs expect that know threading.Lock, asyncio.Lock and other clients' locks."""

from __future__ import annotations

import asyncio
import threading
import unittest
import uuid

import kvslots
from kvslots._label import default_label
from tests.fixture import GatewayTest
from tests.gateways import PATIENCE, Gateway, renewed_early


class Threads(GatewayTest):
    def test_a_lock_like_that_of_threading(self) -> None:
        lock, other = self.client.lock(str(self.uuid)), self.dial(self.gateway.url).lock(str(self.uuid))
        self.assertFalse(lock.locked() or lock.owned())
        self.assertTrue(lock.acquire())
        self.assertTrue(lock.locked() and lock.owned() and other.locked() and not other.owned())
        self.assertIsNone(other.acquire(blocking=False))
        self.assertIsNone(other.acquire(timeout=0.1))
        lock.extend(600)
        self.assertTrue(lock.release())
        self.assertTrue(other.acquire(blocking=True, timeout=PATIENCE))
        self.assertTrue(other.release() and not lock.owned())
        with self.assertRaises(RuntimeError):
            self.client.lock("another").release()

    def test_threads_share_a_lock(self) -> None:
        lock, inside = self.client.lock(str(self.uuid), wait=PATIENCE), list[int]()

        @lock
        def work(number: int) -> None:
            inside.append(number)
            self.assertEqual(len(inside), 1)
            inside.remove(number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with lock, self.assertRaises(RuntimeError):
            lock.acquire()

    def test_habits_of_threading(self) -> None:
        lock = self.client.lock(str(self.uuid))
        lease = lock.acquire()
        self.assertIsNone(lock.acquire(blocking=False))
        thread = threading.Thread(target=lock.release)
        thread.start()
        thread.join()
        self.assertFalse(lease.held)
        with self.assertRaises(RuntimeError):
            lock.release()
        with self.assertRaises(RuntimeError):
            lock.extend(60)
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        thread.join()
        self.assertTrue(lock.release() and not lock.locked())
        for arguments in ((False, 3), (True, -5)):
            with self.assertRaisesRegex(ValueError, "^timeout must be 0 seconds or more, or -1"):
                lock.acquire(*arguments)

    def test_locked(self) -> None:
        semaphore = self.client.semaphore(str(self.uuid), 2)
        with semaphore:
            self.assertFalse(semaphore.locked())
            with self.client.semaphore(str(self.uuid), 2):
                self.assertTrue(semaphore.locked())
        self.assertFalse(self.pool.borrow().locked())
        with self.pool.borrow():
            self.assertTrue(self.pool.borrow().locked())

    def test_a_refusal_says_who_holds_it(self) -> None:
        with self.pool.borrow(label="ci@b7:12 make"), self.client.lock(str(self.uuid)):
            with self.assertRaisesRegex(kvslots.NoSlotError, "^taken by ci@b7:12 make, for [0-9]+ s; place 1$") as raised:
                self.pool.borrow(wait=0).acquire()
            self.assertEqual((raised.exception.held_by, raised.exception.place), ("ci@b7:12 make", 1))
            with self.assertRaises(kvslots.NoSlotError) as raised:
                self.client.lock(str(self.uuid), wait=0).acquire()
            self.assertEqual((raised.exception.held_by, raised.exception.paused), (default_label(), False))
            self.assertLess(raised.exception.held_for or 0, 60)
            with self.assertRaisesRegex(kvslots.LimitMismatchError, "^the key is in use as a lock: taken by .*, for [0-9]+ s$"):
                self.client.semaphore(str(self.uuid), 2, wait=0).acquire()
            with self.client.semaphore(f"{self.uuid}2", 3, label="ci@b7"):
                with self.assertRaisesRegex(kvslots.LimitMismatchError, "^the key is in use with limit 3: taken by ci@b7, for ") as other:
                    self.client.semaphore(f"{self.uuid}2", 2, wait=0).acquire()
            self.assertEqual(other.exception.limit, 3)

    def test_an_applications_error_replaces_none(self) -> None:
        class NoSlotError(kvslots.NoSlotError):
            pass

        self.assertEqual(NoSlotError.code, "no_slot")
        with self.pool.borrow():
            with self.assertRaises(kvslots.NoSlotError) as raised:
                self.pool.borrow(wait=0).acquire()
        self.assertIs(type(raised.exception), kvslots.NoSlotError)


class Tasks(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        gateway = Gateway()
        self.addCleanup(gateway.stop)
        self.client = kvslots.AsyncClient(gateway.url)
        self.addAsyncCleanup(self.client.close)
        self.pool = self.client.pool(uuid.uuid4())
        await self.pool.register(1)

    async def test_a_lock_like_that_of_asyncio(self) -> None:
        lock = self.client.lock("a")
        self.assertTrue(await lock.acquire())
        self.assertTrue(await lock.locked() and lock.owned())
        self.assertIsNone(await self.client.lock("a").acquire(blocking=False))
        await lock.extend(600)
        self.assertTrue(await lock.release())

        @lock
        async def work(number: int) -> int:
            self.assertTrue(lock.owned())
            return number

        self.assertEqual(await asyncio.gather(*map(work, range(8))), list(range(8)))

    @renewed_early
    async def test_a_block_is_cancelled_when_its_lease_is_lost(self) -> None:
        with self.assertRaises(kvslots.LeaseLostError) as raised:
            async with self.pool.borrow():
                await self.pool.delete()
                await asyncio.Event().wait()
        self.assertIsInstance(raised.exception.__cause__, kvslots.NoPoolError)
        await asyncio.sleep(0)  # the task is not cancelled any more

    @renewed_early
    async def test_a_loss_and_a_cancellation_are_a_cancellation(self) -> None:
        ready = asyncio.Event()

        async def hold() -> None:
            async with self.pool.borrow():
                ready.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    task.cancel()

        task = asyncio.create_task(hold())
        await ready.wait()
        await self.pool.delete()
        await asyncio.wait({task})
        self.assertTrue(task.cancelled() or isinstance(task.exception(), kvslots.LeaseLostError))

    async def test_events(self) -> None:
        async with self.pool.events() as events:
            self.assertEqual((await events.__anext__()).type, "starts_over")
            async with self.pool.borrow(label="me") as lease:
                granted = await events.__anext__()
            self.assertEqual((granted.type, granted.fence, granted.label), ("granted", lease.fence, "me"))
            async with self.pool.events(types=["returned"], after=granted.id) as rest:
                async for event in rest:
                    self.assertEqual((event.type, event.fence), ("returned", lease.fence))
                    break
        with self.assertRaises(kvslots.NoPoolError):
            await self.client.pool(uuid.uuid4()).events().__anext__()


if __name__ == "__main__":
    unittest.main()
