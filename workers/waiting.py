"""Waits for a job's result while watching whether the caller is still there."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from workers.errors import CallerLeft
from workers.runner import Ticket

Job = TypeVar("Job")
Result = TypeVar("Result")


async def result_of(ticket: Ticket[Job, Result], request: Request) -> Result:
    """The job's result; the ticket leaves the line when the caller does (CallerLeft).

    The request's body must have been read, so that the next message is the disconnect.
    """

    async def result() -> Result:
        return await asyncio.wrap_future(ticket.future)

    try:
        return await unless_left(result(), request.receive)
    finally:
        ticket.leave()


async def unless_left(work: Coroutine[Any, Any, Result], receive: Receive) -> Result:
    """The work's result; cancels it and raises CallerLeft if the caller leaves first."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(_until_left(receive))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise CallerLeft
        result: Any = tasks[0].result()
        return result  # type: ignore[no-any-return]  # the list holds two kinds of tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def unheard(_: Request, __: Exception) -> Response:
    """The end of a request whose caller left in the middle of its body."""
    return Response(status_code=CallerLeft.status)
