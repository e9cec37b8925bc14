"""Waits for a job's result while watching whether the caller is still there."""

import asyncio
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from workers.errors import CallerLeft
from workers.runner import Ticket

Job = TypeVar("Job")
Result = TypeVar("Result")


async def result_of(ticket: Ticket[Job, Result], request: Request) -> Result:
    """The job's result; the ticket leaves the line when the caller does (CallerLeft).

    The request's body must have been read, so that the next message is the disconnect.
    """
    work: asyncio.Future[Any] = asyncio.wrap_future(ticket.future)
    leaving: asyncio.Future[Any] = asyncio.create_task(_until_left(request))
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise CallerLeft
        result: Result = work.result()
        return result
    finally:
        leaving.cancel()
        if not work.done():
            ticket.leave()
            work.cancel()


async def _until_left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def unheard(_: Request, __: Exception) -> Response:
    """The end of a request whose caller left in the middle of its body."""
    return Response(status_code=CallerLeft.status)
