"""Blocks that are left elsewhere than they were entered, and what else may become of them."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import gc
import inspect
import pickle
import signal
import threading
import unittest
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from unittest import mock

import kvslots
from tests.fixture import GatewayTest
from tests.gateways import PATIENCE, Gateway, eventually

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Threads(GatewayTest):
    def setUp(self) -> None:
        super().setUp()
        self.lock = self.client.lock(str(self.uuid), wait=PATIENCE)
        self.workers = [ThreadPoolExecutor(1), ThreadPoolExecutor(1)]
        for worker in self.workers:
            self.addCleanup(worker.shutdown)

    def within(self, number: int, function: Callable[..., Any], *args: Any) -> Any:
        return self.workers[number].submit(function, *args).result(PATIENCE)

    def free(self) -> bool:
        lease = self.client.lock(str(self.uuid)).acquire(blocking=False)
        return lease is not None and lease.release()

    def test_a_block_is_left_in_another_thread(self) -> None:
        def dependency() -> Iterator[kvslots.Lease]:
            with self.lock as lease:
                yield lease

        generator, stack = dependency(), contextlib.ExitStack()
        lease = self.within(0, next, generator)
        self.assertFalse(self.free())
        self.assertIsNone(self.within(1, next, generator, None))
        self.assertTrue(self.free() and not lease.held)
        self.within(0, stack.enter_context, self.lock)
        self.assertFalse(self.free())
        self.within(1, stack.close)
        self.assertTrue(self.free())

    def test_each_block_releases_its_own(self) -> None:
        """Although one thread has entered all, and another leaves them, in any order."""
        self.pool.register(3)
        borrow = self.pool.borrow(wait=0)

        def dependency() -> Iterator[kvslots.Slot]:
            with borrow as slot:
                yield slot

        generators = [dependency() for _ in range(3)]
        slots = [self.within(0, next, generator) for generator in generators]
        self.assertEqual({slot.position for slot in slots}, {0, 1, 2})
        for number in (1, 0, 2):
            self.within(1, next, generators[number], None)
            self.assertFalse(slots[number].held)
            self.assertEqual(self.pool.inspect().in_use, sum(slot.held for slot in slots))
        self.assertEqual(self.pool.inspect().in_use, 0)

    def test_what_a_stack_has_taken_is_released_by_its_thread(self) -> None:
        self.pool.register(2)
        borrow = self.pool.borrow(wait=0)
        stacks = [contextlib.ExitStack(), contextlib.ExitStack()]
        slots = [self.within(number, stacks[number].enter_context, borrow) for number in (0, 1)]
        self.within(0, stacks[0].close)
        self.assertEqual([slot.held for slot in slots], [False, True])
        self.within(0, stacks[1].close)
        self.assertFalse(slots[1].held)
        with self.assertRaises(RuntimeError):
            borrow.__exit__(None, None, None)

    def test_a_lock_object_inside_its_own_block(self) -> None:
        with self.lock:
            with self.assertRaises(RuntimeError):
                with self.lock:
                    pass
            self.assertIsNone(self.lock.acquire(blocking=False))
        with self.lock as lease:
            lease.release()
            with self.lock as again:
                self.assertTrue(again.held)
        with self.lock as lease:
            self.assertTrue(self.lock.release())
            again = self.lock.acquire()
        self.assertTrue(again.held and self.lock.owned())
        self.assertTrue(self.lock.release() and self.free())

    def test_a_loss_is_told_although_the_object_is_used_again(self) -> None:
        again: kvslots.Lease | None = None
        with self.assertRaises(kvslots.LeaseLostError):
            with self.lock as lease:
                self.client._run(lease._keeper.claim.release())
                lease._keeper.lose(kvslots.NotHeldError("it has ended"))
                again = self.lock.acquire()
        self.assertTrue(again and again.held and self.lock.release())

    def test_an_error_while_a_block_is_left(self) -> None:
        with mock.patch("kvslots._claims.Claim.release", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            with self.lock:
                pass
        self.assertEqual(self.lock._taken, {})

    def test_a_recursive_function_and_threads(self) -> None:
        @self.lock
        def recursive() -> None:
            recursive()

        with self.assertRaises(RuntimeError):
            recursive()
        self.assertTrue(self.free())

    def test_a_thread_that_ends_leaves_its_lease_to_the_object(self) -> None:
        thread = threading.Thread(target=self.lock.acquire)
        thread.start()
        thread.join()
        del thread
        gc.collect()
        self.assertTrue(self.lock.owned())
        self.lock.extend(600)
        self.assertTrue(self.lock.release() and self.free())

    def test_acquire_counts(self) -> None:
        semaphore = self.client.semaphore(str(self.uuid), 2, wait=0)
        leases = [self.within(0, semaphore.acquire), self.within(0, semaphore.acquire)]
        self.assertTrue(self.within(1, semaphore.release) and not leases[1].held and leases[0].held)
        self.assertTrue(semaphore.release())
        with self.assertRaises(RuntimeError):
            semaphore.release()
        with semaphore, self.assertRaises(RuntimeError):
            self.within(0, semaphore.release)  # a block's

    def test_releases_at_once_release_each_one(self) -> None:
        semaphore = self.client.semaphore(str(self.uuid), 16, wait=0)
        leases = [semaphore.acquire() for _ in range(16)]
        with ThreadPoolExecutor(8) as workers:
            self.assertTrue(all(workers.map(lambda _: semaphore.release(), leases)))
        self.assertFalse(any(lease.held for lease in leases))

    def test_an_object_that_acquires_keeps_no_released_leases(self) -> None:
        for _ in range(3):
            self.lock.acquire().release()
        self.assertLessEqual(len(self.lock._taken), 1)

    def test_an_object_that_is_dropped(self) -> None:
        lock = self.client.lock(str(self.uuid))
        lost = lock.acquire().lost
        with self.assertWarns(ResourceWarning):
            del lock
        self.assertTrue(lost._keeper.claim.over)
        lost._keeper.release()

    def test_a_lease_is_a_block_too(self) -> None:
        with self.lock.acquire(timeout=1) or self.fail() as lease:
            self.assertFalse(self.free())
        self.assertTrue(self.free() and not lease.held)
        with self.assertRaises(kvslots.LeaseLostError), self.lock.acquire() as lease:
            lease._keeper.lose(kvslots.NotHeldError("it has ended"))

    def test_a_copy_is_the_same(self) -> None:
        for one in (self.lock, self.lock.acquire(), self.client):
            self.assertIs(copy.copy(one), one)
            self.assertIs(copy.deepcopy([one])[0], one)
            with self.assertRaisesRegex(TypeError, "process"):
                pickle.dumps(one)
        gc.collect()
        self.assertTrue(self.lock.release())

    def test_the_words_of_both(self) -> None:
        with self.lock:
            for arguments in ((0,), (False,), (0, -1)):
                self.assertIsNone(self.client.lock(str(self.uuid)).acquire(*arguments))
            self.assertIsNone(self.client.lock(str(self.uuid)).acquire(blocking=0))  # type: ignore[call-overload]
            for lock in (self.client.lock(str(self.uuid), timeout=0), self.client.lock(str(self.uuid), wait=0)):
                with self.assertRaises(kvslots.NoSlotError):
                    lock.acquire()
            with self.assertRaises(kvslots.NoSlotError):
                self.client.lock(str(self.uuid)).acquire(wait=0)
        for wait, timeout in ((1, 1), (None, -2), (-1, None)):
            with self.assertRaises(ValueError):
                self.client.lock("a", wait=wait, timeout=timeout)
        self.assertIsNone(self.client.lock("a", timeout=-1)._wait)

    def test_representations(self) -> None:
        self.assertEqual(repr(self.client.lock("deploy")), "<Borrow of lock 'deploy'>")
        self.assertEqual(repr(self.client.semaphore("a b", 3)), "<Borrow of semaphore 'a b'>")
        with self.client.lock("deploy") as lease, self.pool.borrow() as slot:
            self.assertEqual(repr(lease), f"<Lease of lock 'deploy' fence={lease.fence}>")
            for one in (self.pool.borrow(), slot):
                self.assertNotIn(str(self.uuid), repr(one))

    @unittest.skipUnless(hasattr(signal, "setitimer"), "needs signals")
    def test_a_signal_handler_that_releases_during_a_release(self) -> None:
        told = list[bool]()
        handled = threading.Event()
        release = kvslots._claims.SlotClaim._releasing

        def handler(*_: object) -> None:
            told.extend((borrow.release(), lease.release()))
            handled.set()

        def interrupted(claim: Any) -> Any:
            signal.raise_signal(signal.SIGUSR1)
            return release(claim)

        before = signal.signal(signal.SIGUSR1, handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        borrow = self.pool.borrow()
        with mock.patch.object(kvslots._claims.SlotClaim, "_releasing", interrupted):
            lease = borrow.acquire()
            self.assertTrue(borrow.release())
            with borrow as lease:
                pass
        self.assertTrue(handled.is_set())
        self.assertEqual((told, self.pool.inspect().in_use), ([False] * 4, 0))


class Decorated(GatewayTest):
    """Functions of every kind hold it while their bodies run."""

    def held(self, name: str) -> bool:
        return self.client.lock(name).locked()

    def test_a_client(self) -> None:
        self.check(self.client)

    def test_a_client_of_asyncio(self) -> None:
        self.check(kvslots.AsyncClient(self.gateway.url))

    def check(self, client: Any) -> None:
        name = str(self.uuid)
        lock: Callable[[F], F] = client.lock(name, wait=PATIENCE)

        @lock
        async def coroutine(value: int) -> tuple[int, bool]:
            return value, await asyncio.to_thread(self.held, name)

        @lock
        async def generator(value: int) -> AsyncGenerator[Any, int]:
            try:
                value = yield value, await asyncio.to_thread(self.held, name)
                yield value
            except ZeroDivisionError:
                yield "caught"

        @lock
        def function(value: int) -> tuple[int, bool]:
            return value, self.held(name)

        class Callables:
            @lock
            async def method(self) -> bool:
                return await asyncio.to_thread(test.held, name)

            async def __call__(self) -> bool:
                return await asyncio.to_thread(test.held, name)

        async def run() -> None:
            self.assertEqual(await coroutine(1), (1, True))
            self.assertEqual(await asyncio.gather(coroutine(2), coroutine(3)), [(2, True), (3, True)])
            items = generator(1)
            self.assertEqual(await items.__anext__(), (1, True))
            self.assertEqual(await items.asend(2), 2)
            await items.aclose()
            self.assertFalse(await asyncio.to_thread(self.held, name))
            items = generator(1)
            await items.__anext__()
            self.assertEqual(await items.athrow(ZeroDivisionError()), "caught")
            self.assertEqual([item async for item in items], [])
            self.assertTrue(await Callables().method() and await lock(Callables())())
            self.assertTrue(await lock(functools.partial(asyncio.to_thread, self.held, name))())
            self.assertEqual(await maybe(function(1)), (1, True))
            self.assertFalse(await asyncio.to_thread(self.held, name))
            with self.client.lock(name) as lease:
                waiting = asyncio.create_task(coroutine(4))
                while not await asyncio.to_thread(self.client.lock(name).line):
                    pass
                waiting.cancel()
                await asyncio.wait({waiting})
                self.assertTrue(waiting.cancelled() and lease.held)
            if client is not self.client:
                await client.close()

        test = self
        asyncio.run(run())
        self.assertTrue(inspect.iscoroutinefunction(coroutine) and inspect.isasyncgenfunction(generator))

    def test_a_generator(self) -> None:
        name = str(self.uuid)

        @self.client.lock(name)
        def generator() -> Generator[Any, bool, None]:
            yield (yield self.held(name))

        items = generator()
        self.assertTrue(next(items))
        self.assertEqual(items.send(True), True)
        self.assertEqual((list(items), self.held(name)), ([], False))

    def test_what_cannot_be_held(self) -> None:
        name = str(self.uuid)
        asynchronous = kvslots.AsyncClient(self.gateway.url)
        with self.assertRaises(TypeError):
            asynchronous.lock(name)(self.numbers)
        locks: list[Any] = [self.client.lock(name), asynchronous.lock(name)]
        for lock in locks:
            for one in (int, 7, property()):
                with self.assertRaises(TypeError):
                    lock(one)
        functions: list[Any] = [lambda: self.numbers(), lambda: asyncio.sleep(0)]
        for function in functions:
            with self.assertRaisesRegex(TypeError, "decorate the function"):
                self.client.lock(name)(function)()
        asyncio.run(asynchronous.close())

    def numbers(self) -> Iterator[int]:
        yield 1


async def maybe(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


class Tasks(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        gateway = Gateway()
        self.addCleanup(gateway.stop)
        self.client = kvslots.AsyncClient(gateway.url)
        self.addAsyncCleanup(self.client.close)
        self.pool = self.client.pool(uuid.uuid4())
        await self.pool.register(1)
        self.name = str(uuid.uuid4())
        self.lock = self.client.lock(self.name, wait=PATIENCE)

    async def elsewhere(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await asyncio.create_task(coroutine)

    async def free(self) -> bool:
        lease = await self.client.lock(self.name).acquire(blocking=False)
        return lease is not None and await lease.release()

    async def test_a_block_is_left_in_another_task(self) -> None:
        async def fixture() -> AsyncIterator[kvslots.AsyncLease]:
            async with self.lock as lease:
                yield lease

        generator: Any = fixture()
        await self.elsewhere(generator.__anext__())
        self.assertFalse(await self.free())
        with self.assertRaises(StopAsyncIteration):
            await self.elsewhere(generator.__anext__())
        self.assertTrue(await self.free())
        stack = contextlib.AsyncExitStack()
        await stack.enter_async_context(self.lock)
        await self.elsewhere(stack.aclose())
        self.assertTrue(await self.free())
        async for _ in fixture():
            break
        gc.collect()
        async with self.client.lock(self.name, wait=PATIENCE):
            pass

    async def test_each_block_releases_its_own(self) -> None:
        await self.pool.register(3)
        borrow = self.pool.borrow(wait=0)

        async def fixture() -> AsyncIterator[kvslots.AsyncSlot]:
            async with borrow as slot:
                yield slot

        generators: list[Any] = [fixture() for _ in range(3)]
        slots = [await generator.__anext__() for generator in generators]
        for number in (1, 0, 2):
            await self.elsewhere(generators[number].aclose())
            self.assertFalse(slots[number].held)
            self.assertEqual((await self.pool.inspect()).in_use, sum(slot.held for slot in slots))

    async def test_a_lock_object_inside_its_own_block(self) -> None:
        async with self.lock as lease:
            with self.assertRaises(RuntimeError):
                await self.lock.acquire()
            self.assertIsNone(await self.lock.acquire(blocking=False))
            await lease.release()
            async with self.lock:
                self.assertTrue(self.lock.owned())
        self.assertTrue(await self.free())

    async def test_acquire_in_a_task_of_its_own(self) -> None:
        acquires: list[Callable[[], Any]] = [
            lambda: asyncio.wait_for(self.lock.acquire(), PATIENCE),
            lambda: asyncio.create_task(self.lock.acquire()),
            lambda: asyncio.gather(self.lock.acquire()),
        ]
        for acquire in acquires:
            await acquire()
            gc.collect()
            self.assertTrue(self.lock.owned() and not await self.free())
            await self.lock.extend(60)
            self.assertTrue(await self.lock.release() and await self.free())

    async def test_a_lease_is_a_block_too(self) -> None:
        async with await self.lock.acquire(wait=1) as lease:
            self.assertFalse(await self.free())
        self.assertFalse(lease.held)
        with self.assertRaises(kvslots.LeaseLostError):
            async with await self.lock.acquire() as lease:
                lease._keeper.lose(kvslots.NotHeldError("it has ended"))
                await asyncio.Event().wait()
        with self.assertRaises(kvslots.LeaseLostError):
            async with self.client.lock(str(uuid.uuid4())) as lease:
                lease._keeper.lose(kvslots.NotHeldError("it has ended"))
        await asyncio.sleep(0)

    async def test_a_loss_does_not_cancel_the_task_that_leaves_the_block(self) -> None:
        stack, entered = contextlib.AsyncExitStack(), asyncio.Event()

        async def hold() -> None:
            lease = await stack.enter_async_context(self.lock)
            lease._keeper.lose(kvslots.NotHeldError("it has ended"))
            entered.set()

        await self.elsewhere(hold())
        with self.assertRaises(kvslots.LeaseLostError):
            await stack.aclose()

    async def test_a_loss_cancels_the_task_no_more_when_its_block_is_left(self) -> None:
        """Whatever the block has raised: otherwise a task group around it takes its own end for a cancellation."""
        task = asyncio.current_task()
        for raised in (None, ZeroDivisionError):
            with self.assertRaises(raised or kvslots.LeaseLostError):
                async with self.lock as lease:
                    lease._keeper.lose(kvslots.NotHeldError("it has ended"))
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.Event().wait()
                    if raised is not None:
                        raise raised
            self.assertEqual(getattr(task, "cancelling", int)(), 0)  # from Python 3.11 on


class Closed(GatewayTest):
    def test_close_ends_what_waits(self) -> None:
        """Threads, tasks and iterations; nothing of them stays in line, or is granted later."""
        client = self.dial(self.gateway.url)
        errors, events = list[BaseException](), client.events()
        next(events)

        def wait(call: Callable[[], object]) -> None:
            try:
                call()
            except BaseException as error:
                errors.append(error)

        with self.pool.borrow(), self.client.lock(str(self.uuid)):
            calls: list[Callable[[], object]] = [
                client.pool(self.uuid).borrow().acquire,
                client.lock(str(self.uuid)).acquire,
                lambda: list(events),
            ]
            threads = [threading.Thread(target=wait, args=(call,)) for call in calls]
            for thread in threads:
                thread.start()
            self.wait_for_waiters(1)
            eventually(lambda: self.client.lock(str(self.uuid)).line())
            client.close()
            for thread in threads:
                thread.join(PATIENCE)
            self.assertEqual([str(error) for error in errors], ["the client is closed"] * 2)
            self.wait_for_waiters(0)
            self.assertEqual(self.client.lock(str(self.uuid)).line(), [])

    def test_close_ends_tasks_that_wait(self) -> None:
        async def run() -> None:
            client = kvslots.AsyncClient(self.gateway.url)
            events = client.events(pools=["0" * 32])
            await events.__anext__()
            waiting: list[kvslots.AsyncBorrow[Any]] = [client.pool(self.uuid).borrow(), client.lock(str(self.uuid))]
            tasks = [asyncio.create_task(one.acquire()) for one in waiting]

            async def rest() -> None:
                async for _ in events:
                    pass

            more = asyncio.create_task(rest())
            while (await asyncio.to_thread(self.pool.inspect)).waiting != 1 or not self.client.lock(str(self.uuid)).line():
                pass
            await client.close()
            self.assertEqual((self.pool.inspect().waiting, self.client.lock(str(self.uuid)).line()), (0, []))
            results = await asyncio.gather(*tasks, more, return_exceptions=True)
            self.assertEqual([str(result) for result in results[:2]], ["the client is closed"] * 2)
            self.assertIsNone(results[2])

        with self.pool.borrow(), self.client.lock(str(self.uuid)):
            asyncio.run(run())

    def test_a_grant_that_meets_the_close(self) -> None:
        client = self.dial(self.gateway.url)

        def close(*_: object) -> None:
            client._closed = True

        with mock.patch("kvslots._keeper.Background.keep", close), self.assertRaises(RuntimeError):
            client.pool(self.uuid).borrow().acquire()
        self.assertEqual(self.pool.inspect().in_use, 0)


if __name__ == "__main__":
    unittest.main()
