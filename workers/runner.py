"""One thread that loads an engine and runs jobs one at a time, in the order they came.

Knows nothing about HTTP or about what a job is.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Generic, Literal, TypeVar

import structlog

from workers.engine import HasLeft
from workers.errors import (
    Busy,
    DeviceMissing,
    EngineBroken,
    NotReady,
    PipelineFailed,
    WorkerError,
    WorkLost,
)

Job = TypeVar("Job")
Result = TypeVar("Result")
State = Literal["loading", "ok", "stopping", "failed"]
Run = Callable[[Job, HasLeft], Result]

WAITING_LIMIT = 64
STOPPING = "This process is stopping."

log = structlog.get_logger()


class Ticket(Generic[Job, Result]):
    """One job on its way through the line."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.future: Future[Result] = Future()
        self.has_left = False

    def leave(self) -> None:
        """Skips the job if it has not begun; else the engine stops it when it next looks."""
        self.has_left = True
        self.future.cancel()

    def fail(self, error: BaseException) -> None:
        """Ends the ticket with an error, unless it has ended already."""
        try:
            self.future.set_exception(error)
        except InvalidStateError:
            return


class Runner(Generic[Job, Result]):
    """Owns the engine thread: `load` runs in it once and returns what runs every job."""

    def __init__(
        self, load: Callable[[], Run[Job, Result]], waiting_limit: int = WAITING_LIMIT
    ) -> None:
        self._load = load
        self._limit = waiting_limit
        self._line: deque[Ticket[Job, Result]] = deque()
        self._running: Ticket[Job, Result] | None = None
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self.state: State = "loading"
        self.failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Runner {self.state}, in flight {self.in_flight}, waiting {self.waiting}>"

    @property
    def in_flight(self) -> int:
        """1 while a job runs, else 0."""
        return 0 if self._running is None else 1

    @property
    def waiting(self) -> int:
        """Jobs in the line whose callers are still there."""
        with self._change:
            return self._waiting()

    def start(self) -> None:
        """Starts loading."""
        self._thread.start()

    def submit(self, job: Job) -> Ticket[Job, Result]:
        """Puts a job at the end of the line; raises NotReady or Busy, in which case nothing ran."""
        with self._change:
            if self.state != "ok":
                raise NotReady(None if self.state == "loading" else STOPPING)
            if self._waiting() >= self._limit:
                raise Busy
            ticket: Ticket[Job, Result] = Ticket(job)
            self._line.append(ticket)
            self._change.notify()
            return ticket

    def stop(self) -> None:
        """Ends the line and gives up the running job; the thread ends when it next looks."""
        self._end("stopping", NotReady(STOPPING))

    def join(self, seconds: float) -> bool:
        """Waits for the thread; says whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _waiting(self) -> int:
        return sum(not ticket.has_left for ticket in self._line)

    def _end(self, state: State, reason: WorkerError) -> None:
        with self._change:
            if self.state not in ("loading", "ok"):
                return
            self.state = state
            waiting, running = list(self._line), self._running
            self._line.clear()
            self._change.notify()
        for ticket in waiting:
            ticket.fail(reason)
        if running is not None:
            running.has_left = True
            running.fail(WorkLost())

    def _work(self) -> None:
        try:
            run = self._load()
            with self._change:
                if self.state == "loading":
                    self.state = "ok"
            while (ticket := self._next()) is not None:
                self._serve(run, ticket)
        except BaseException as error:  # the thread's end ends the process, by `failure`
            if isinstance(error, DeviceMissing):
                log.error("engine_failed", reason=str(error))
            else:
                log.error("engine_failed", exc_info=error)
            self.failure = error
            self._end("failed", NotReady("The engine has failed."))

    def _next(self) -> Ticket[Job, Result] | None:
        with self._change:
            self._running = None
            while self.state == "ok":
                if not self._line:
                    self._change.wait()
                elif (ticket := self._line.popleft()).future.set_running_or_notify_cancel():
                    self._running = ticket
                    return ticket
            return None

    def _serve(self, run: Run[Job, Result], ticket: Ticket[Job, Result]) -> None:
        try:
            result = run(ticket.job, lambda: ticket.has_left)
        except EngineBroken:
            raise
        except WorkerError as error:
            self._running = None
            ticket.fail(error)
        except Exception as error:  # one request's failure must not end the thread
            log.error("generation_failed", exc_info=error)
            self._running = None
            ticket.fail(PipelineFailed())
        else:
            self._running = None
            try:
                ticket.future.set_result(result)
            except InvalidStateError:  # the process is stopping and has answered already
                return
