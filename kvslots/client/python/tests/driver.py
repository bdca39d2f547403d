"""The driver of this client for the package promisestest in Go, which has its protocol.

    python -m tests.driver [--asyncio]
"""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import sys
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

import kvslots


def outcome(error: BaseException) -> str:
    if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
        return "canceled"
    if isinstance(error, kvslots.NoSlotError):
        return "taken"
    if isinstance(error, kvslots.TwoStoresError):
        return "two stores"
    if isinstance(error, kvslots.UnreachableError):
        return "foreign" if error.permanent else "unavailable"
    if isinstance(error, kvslots.KvslotsError) and error.status in (429, 502, 503, 504):
        return "unavailable"
    return repr(error)


def answer(result: str, took: float, back: str = "", back_took: float = 0.0) -> dict[str, Any]:
    return {"outcome": result, "took": took, "back": back, "back_took": back_took}


def given_back(released: bool) -> str:
    return "yes" if released else "the lease was not released"


def look_up_slowly(seconds: float, system: Any = socket.getaddrinfo) -> None:
    def look_up(host: str, *args: Any, **options: Any) -> Any:
        if not host.endswith(".test"):
            return system(host, *args, **options)
        if options.get("flags", 0) & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not an address")
        time.sleep(seconds)
        return system("127.0.0.1", *args, **options)

    setattr(socket, "getaddrinfo", look_up)


def perform(call: dict[str, Any]) -> dict[str, Any]:
    """Perform a call, which is canceled as Ctrl-C does it."""
    client = kvslots.Client(call["url"])
    terms: dict[str, Any] = {"ttl": call["ttl"], "wait": call["wait"]}
    borrow: kvslots.Borrow[Any] = client.lock(call["name"], **terms)
    if call["do"] == "borrow":
        borrow = client.pool(call["pool"]).borrow(**terms)
    begin = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, call.get("cancel") or 0)
        lease = borrow.acquire()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return answer(outcome(error), time.monotonic() - begin)
    granted = time.monotonic()
    if call.get("hold"):
        lease.lost.wait()
        return answer("lost", time.monotonic() - granted)
    released = lease.release()
    client.close()
    return answer("granted", granted - begin, given_back(released), time.monotonic() - granted)


async def perform_with_asyncio(call: dict[str, Any]) -> dict[str, Any]:
    client = kvslots.AsyncClient(call["url"])
    terms: dict[str, Any] = {"ttl": call["ttl"], "wait": call["wait"]}
    borrow: kvslots.AsyncBorrow[Any] = client.lock(call["name"], **terms)
    if call["do"] == "borrow":
        borrow = client.pool(call["pool"]).borrow(**terms)
    begin = time.monotonic()
    task = asyncio.create_task(borrow.acquire())
    if call.get("cancel"):
        asyncio.get_running_loop().call_later(call["cancel"], task.cancel)
    try:
        lease = await task
    except BaseException as error:
        took = time.monotonic() - begin
        await client.close()
        return answer(outcome(error), took)
    granted = time.monotonic()
    if call.get("hold"):
        await lease.lost.wait()
        await client.close()
        return answer("lost", time.monotonic() - granted)
    released = await lease.release()
    await client.close()
    return answer("granted", granted - begin, given_back(released), time.monotonic() - granted)


def measure(call: dict[str, Any]) -> dict[str, Any]:
    pair = raw_pair(call) if call["do"] == "raw pairs" else client_pair(call)
    begin = time.process_time()
    for _ in range(call["pairs"]):
        pair()
    return {"outcome": "granted", "cpu": time.process_time() - begin}


def client_pair(call: dict[str, Any]) -> Callable[[], object]:
    pool = kvslots.Client(call["url"]).pool(call["pool"])
    return lambda: pool.borrow(wait=0).acquire().release()


def raw_pair(call: dict[str, Any]) -> Callable[[], object]:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(call["url"]).netloc)

    def post(operation: str, body: object) -> Any:
        path = f"/l/{call['pool']}/{operation}"
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())

    return lambda: post("return", {"lease": post("borrow", {"ttl": 60, "wait": 0})["lease"]})


async def measure_with_asyncio(call: dict[str, Any]) -> dict[str, Any]:
    if call["do"] == "raw pairs":
        return measure(call)
    async with kvslots.AsyncClient(call["url"]) as client:
        pool = client.pool(call["pool"])
        begin = time.process_time()
        for _ in range(call["pairs"]):
            lease = await pool.borrow(wait=0).acquire()
            await lease.release()
        return {"outcome": "granted", "cpu": time.process_time() - begin}


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    signal.signal(signal.SIGALRM, interrupt)
    with_asyncio = "--asyncio" in sys.argv
    for line in sys.stdin:
        call = json.loads(line)
        look_up_slowly(call.get("lookup") or 0)
        if call.get("pairs"):
            result = asyncio.run(measure_with_asyncio(call)) if with_asyncio else measure(call)
        else:
            result = asyncio.run(perform_with_asyncio(call)) if with_asyncio else perform(call)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
