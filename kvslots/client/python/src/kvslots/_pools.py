"""Pools of numbered slots, without I/O."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from ._gateways import Flow, Gateways, integer
from ._http import Request


@dataclass(frozen=True)
class PoolState:
    """A pool's slots, and how many borrowers wait in its line."""

    count: int
    in_use: int
    available: int
    waiting: int


def read_state(gateways: Gateways, request: Request) -> Flow[PoolState]:
    body = (yield from gateways.repeat(request)).json()
    return PoolState(*(integer(body, name) for name in ("count", "in_use", "available", "waiting")))


def register(gateways: Gateways, pool: dict[str, str], count: int, name: str = "") -> Flow[PoolState]:
    body: dict[str, Any] = {"count": count} | ({"name": name} if name else {})
    return read_state(gateways, Request("PUT", "/l/self", body, pool | {"Idempotency-Key": str(uuid.uuid4())}))


def inspect(gateways: Gateways, pool: dict[str, str]) -> Flow[PoolState]:
    return read_state(gateways, Request("GET", "/l/self", headers=pool))


def delete(gateways: Gateways, pool: dict[str, str]) -> Flow[None]:
    (yield from gateways.repeat(Request("DELETE", "/l/self", headers=pool))).json()
