"""Leases of a gateway, with asyncio."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import unittest
import urllib.request
import uuid
from typing import Any

import kvslots
from tests.gateways import PATIENCE, Gateway, Proxy, renewed_early

gateway: Gateway


def setUpModule() -> None:
    global gateway
    gateway = Gateway()


def tearDownModule() -> None:
    gateway.stop()


class Test(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.client = await self.dial(gateway.url)
        self.uuid = uuid.uuid4()
        self.pool = self.client.pool(self.uuid)
        await self.pool.register(1)

    async def dial(self, url: str) -> kvslots.AsyncClient:
        client = kvslots.AsyncClient(url)
        self.addAsyncCleanup(client.close)
        return client

    async def wait_for_waiters(self, count: int) -> None:
        until = time.monotonic() + PATIENCE
        while (await self.pool.inspect()).waiting != count:
            self.assertLess(time.monotonic(), until, "the condition was not met in time")


class Leases(Test):
    @renewed_early
    async def test_a_blocked_loop_does_not_cost_a_lease(self) -> None:
        async with self.pool.borrow(ttl=4) as slot, self.client.lock(str(self.uuid), ttl=4) as lock:
            time.sleep(5)
            for lease in (slot, lock):
                self.assertIsNone(lease.lost.cause)
                self.assertGreater(lease.remaining, 0)
            with self.assertRaises(kvslots.NoSlotError):
                await self.pool.borrow(wait=0).acquire()

    async def test_release(self) -> None:
        lease = await self.pool.borrow().acquire()
        self.assertTrue(await lease.release())
        self.assertTrue(await lease.release())
        self.assertEqual((await self.pool.inspect()).in_use, 0)

    @renewed_early
    async def test_loss(self) -> None:
        with self.assertRaises(kvslots.LeaseLostError) as raised:
            async with self.pool.borrow() as lease:
                await self.pool.delete()
                await asyncio.gather(lease.lost.wait(), lease.lost.wait())
                await lease.lost.wait()
        self.assertIsInstance(raised.exception.__cause__, kvslots.NoPoolError)

    @renewed_early
    async def test_a_wait_for_the_loss_may_be_given_up(self) -> None:
        lease = await self.pool.borrow().acquire()
        for _ in range(100):
            task = asyncio.create_task(lease.lost.wait())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self.assertLess(len(lease._keeper.ended._done_callbacks), 5)  # type: ignore[attr-defined]
        waiting = asyncio.create_task(lease.lost.wait())
        await self.pool.delete()
        await waiting
        self.assertIsInstance(lease.lost.cause, kvslots.NoPoolError)
        self.assertFalse(await lease.release())

    async def test_the_error_of_the_block_is_not_masked(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            async with self.pool.borrow(ttl=1):
                await self.pool.delete()
                try:
                    await asyncio.Event().wait()
                finally:
                    1 / 0

    async def test_no_slot(self) -> None:
        async with self.pool.borrow():
            with self.assertRaises(kvslots.NoSlotError):
                await self.pool.borrow(wait=0.5).acquire()

    async def test_a_borrow_holds_one_slot_at_a_time(self) -> None:
        borrow = self.pool.borrow()
        async with borrow:
            with self.assertRaises(RuntimeError):
                await borrow.__aenter__()

    async def test_a_wait_for_the_loss_ends_with_the_release(self) -> None:
        lease = await self.pool.borrow().acquire()
        waiting = asyncio.create_task(lease.lost.wait())
        await asyncio.sleep(0)
        await lease.release()
        self.assertFalse(await waiting)

    async def test_the_clock_alone_shows_a_loss(self) -> None:
        """Although the thread that renews the lease has stopped."""
        lease = await self.pool.borrow(ttl=1).acquire()
        lease._keeper.drop()
        self.assertTrue(await lease.lost.wait())
        self.assertLess(kvslots.clock(), lease.deadline + PATIENCE)
        await lease.release()

    async def test_a_lease_is_released_with_its_client(self) -> None:
        client = kvslots.AsyncClient(gateway.url)
        slot, lock = await client.pool(self.uuid).borrow().acquire(), await client.lock(str(self.uuid)).acquire()
        await client.close()
        self.assertFalse(slot.held or lock.held or slot.lost.is_set() or lock.lost.is_set())
        self.assertEqual((await self.pool.inspect()).in_use, 0)
        with self.assertRaises(RuntimeError):
            await client.lock("a").acquire()


class Cancellation(Test):
    async def cancel(self, *tasks: asyncio.Task[kvslots.AsyncLease]) -> None:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            self.assertIsInstance(result, asyncio.CancelledError)

    async def test_in_line(self) -> None:
        async with self.pool.borrow():
            tasks = [asyncio.create_task(self.pool.borrow().acquire()) for _ in range(20)]
            await self.wait_for_waiters(20)
            await self.cancel(*tasks)
            await self.wait_for_waiters(0)

    async def test_in_line_for_a_lock(self) -> None:
        name = str(self.uuid)
        async with self.client.lock(name):
            task = asyncio.create_task(self.client.lock(name).acquire())
            await until_waiting(name, 1)
            await self.cancel(task)
            await until_waiting(name, 0)

    async def test_with_a_grant_on_its_way(self) -> None:
        proxy = Proxy(gateway.url)
        self.addCleanup(proxy.stop)
        answered, go_on = threading.Event(), threading.Event()

        def hold_back(request: object) -> str:
            if not answered.is_set():
                answered.set()
                go_on.wait(PATIENCE)
                return "lose"
            return ""

        proxy.fault = hold_back
        client = await self.dial(proxy.url)
        borrows: list[kvslots.AsyncBorrow[Any]] = [client.pool(self.uuid).borrow(), client.lock(str(self.uuid))]
        for borrow in borrows:
            answered.clear()
            go_on.clear()
            task = asyncio.create_task(borrow.acquire())
            await asyncio.to_thread(answered.wait, PATIENCE)
            cancelled = asyncio.create_task(self.cancel(task))
            await asyncio.sleep(0)
            go_on.set()
            await cancelled
            async with self.pool.borrow(), self.client.lock(str(self.uuid)):
                pass

    async def test_at_any_time_leaves_nothing(self) -> None:
        for steps in range(40):
            task = asyncio.create_task(self.pool.borrow(wait=PATIENCE).acquire())
            for _ in range(steps):
                await asyncio.sleep(0)
            if task.done():
                await task.result().release()
                break
            task.cancel()
            try:
                await (await task).release()
            except asyncio.CancelledError:
                pass
            async with self.pool.borrow(wait=PATIENCE) as lease:
                self.assertEqual(lease.position, 0)
        self.assertEqual((await self.pool.inspect()).in_use, 0)

    async def test_in_the_block(self) -> None:
        entered = asyncio.Event()

        async def hold() -> None:
            async with self.pool.borrow():
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        await entered.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual((await self.pool.inspect()).in_use, 0)

    async def test_during_the_release(self) -> None:
        lease = await self.pool.borrow().acquire()
        task = asyncio.create_task(lease.release())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with self.pool.borrow(wait=PATIENCE):
            pass


class Order(Test):
    async def test_200_tasks_hold_one_lock_in_order(self) -> None:
        name, order = str(self.uuid), list[int]()
        held = 0

        async def task(number: int) -> None:
            nonlocal held
            async with self.client.lock(name):
                held += 1
                self.assertEqual(held, 1)
                order.append(number)
                await asyncio.sleep(0)
                held -= 1

        tasks = []
        async with self.client.lock(name):
            for number in range(200):
                tasks.append(asyncio.create_task(task(number)))
                await until_waiting(name, number + 1)
        await asyncio.gather(*tasks)
        self.assertEqual(order, list(range(200)))


async def waiters(name: str) -> int:
    """Return the length of a lock's line, of which only the statistics know."""

    def read() -> int:
        with urllib.request.urlopen(gateway.url + "/v1/stats") as answer:
            return sum(int(lock["waiters"]) for lock in json.load(answer)["locks"] if lock["key"] == name)

    return await asyncio.to_thread(read)


async def until_waiting(name: str, count: int) -> None:
    until = time.monotonic() + PATIENCE
    while await waiters(name) != count:
        assert time.monotonic() < until, "the condition was not met in time"


if __name__ == "__main__":
    unittest.main()
