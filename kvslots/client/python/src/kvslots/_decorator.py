"""Functions that hold a slot while their bodies run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing
from typing import Any


def decorated(
    function: Any,
    blocking: AbstractContextManager[Any] | None,
    asynchronous: Callable[[], AbstractAsyncContextManager[Any]],
) -> Any:
    """Return a function of the same kind, whose body runs in a block of asynchronous, or of blocking if it can block."""

    async def generate(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async with asynchronous(), aclosing(function(*args, **kwargs)) as items:
            step = items.asend(None)
            while True:
                try:
                    item = await step
                except StopAsyncIteration:
                    return
                try:
                    step = items.asend((yield item))
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step = items.athrow(error)

    async def wait(*args: Any, **kwargs: Any) -> Any:
        async with asynchronous():
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else _ended(result)

    def iterate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        assert blocking is not None
        with blocking:
            return (yield from function(*args, **kwargs))

    def call(*args: Any, **kwargs: Any) -> Any:
        assert blocking is not None
        with blocking:
            return _ended(function(*args, **kwargs))

    if not callable(function) or inspect.isclass(function):
        raise TypeError("only a function can be decorated")

    def of_kind(test: Callable[[Any], bool]) -> bool:
        return test(function) or test(getattr(function, "__call__"))

    if of_kind(inspect.isasyncgenfunction):
        held: Any = generate
    elif of_kind(inspect.isgeneratorfunction):
        if blocking is None:
            raise TypeError("a generator cannot await what it is to hold: make it an asynchronous one")
        held = iterate
    else:
        held = wait if blocking is None or of_kind(inspect.iscoroutinefunction) else call
    return functools.wraps(function)(held)


def _ended(result: Any) -> Any:
    """Return the result of a body that has run; raise TypeError if it only begins to run later, without the slot."""
    if inspect.iscoroutine(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()  # without the warning that it was never awaited
        raise TypeError("its result would run without what it is to hold: decorate the function that has the body")
    return result
