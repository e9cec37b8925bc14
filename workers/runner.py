"""One thread that loads an engine and runs jobs in the order they came.

Jobs that may share a run are taken together; else one at a time. Knows nothing about HTTP or
about what a job is.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Generic, Literal, TypeVar

import structlog

from workers.errors import (
    Busy,
    CallerLeft,
    DeviceMissing,
    EngineBroken,
    NotReady,
    PipelineFailed,
    Refused,
    WorkerError,
    WorkLost,
)
from workers.watch import Hear, Watch

Job = TypeVar("Job")
Result = TypeVar("Result")
State = Literal["loading", "ok", "stopping", "failed"]
Run = Callable[[Sequence[Job], Sequence[Watch]], Sequence[Result]]
MayJoin = Callable[[Sequence[Job], Job], bool]

WAITING_LIMIT = 64
STOPPING = "This process is stopping."

log = structlog.get_logger()


class Ticket(Generic[Job, Result]):
    """One job on its way through the line."""

    def __init__(self, job: Job, hear: Hear | None = None) -> None:
        self.job = job
        self.watch = Watch(hear)
        self.future: Future[Result] = Future()
        self.began: float | None = None

    def begin(self) -> bool:
        """Marks the job as running, unless its caller has left."""
        try:
            if self.watch.has_left or not self.future.set_running_or_notify_cancel():
                return False
        except InvalidStateError:  # left just now
            return False
        self.began = time.monotonic()
        return True

    def leave(self) -> None:
        """Skips the job if it has not begun; else the engine stops it before its next step."""
        self.watch.leave()
        self.fail(CallerLeft())

    def fail(self, error: BaseException) -> None:
        """Ends the ticket with an error, unless it has ended already."""
        try:
            self.future.set_exception(error)
        except InvalidStateError:
            return

    def succeed(self, result: Result) -> None:
        """Ends the ticket with its result, unless it has ended already."""
        try:
            self.future.set_result(result)
        except InvalidStateError:  # its caller left, or the process is stopping
            return


class Runner(Generic[Job, Result]):
    """Owns the engine thread: `load` runs in it once and returns what runs every job.

    `may_join` says whether one more job may run together with others that wait.
    """

    def __init__(
        self,
        load: Callable[[], Run[Job, Result]],
        waiting_limit: int = WAITING_LIMIT,
        may_join: MayJoin[Job] = lambda _, __: False,
    ) -> None:
        self._load = load
        self._limit = waiting_limit
        self._may_join = may_join
        self._line: deque[Ticket[Job, Result]] = deque()
        self._running: list[Ticket[Job, Result]] = []
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self.state: State = "loading"
        self.failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Runner {self.state}, in flight {self.in_flight}, waiting {self.waiting}>"

    @property
    def in_flight(self) -> int:
        """How many jobs run now."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Jobs in the line whose callers are still there."""
        with self._change:
            return self._waiting()

    def tickets(self) -> list[Ticket[Job, Result]]:
        """What runs, then what waits."""
        with self._change:
            return [*self._running, *(each for each in self._line if not each.watch.has_left)]

    def start(self) -> None:
        """Starts loading."""
        self._thread.start()

    def submit(self, job: Job, hear: Hear | None = None) -> Ticket[Job, Result]:
        """Puts a job at the end of the line; raises NotReady or Busy, in which case nothing ran."""
        with self._change:
            if self.state != "ok":
                raise NotReady(None if self.state == "loading" else STOPPING)
            if self._waiting() >= self._limit:
                raise Busy
            ticket: Ticket[Job, Result] = Ticket(job, hear)
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
        return sum(not ticket.watch.has_left for ticket in self._line)

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
        for ticket in running:
            ticket.watch.leave()
            ticket.fail(WorkLost())

    def _work(self) -> None:
        try:
            run = self._load()
            with self._change:
                if self.state == "loading":
                    self.state = "ok"
            while tickets := self._next():
                self._serve(run, tickets)
        except BaseException as error:  # the thread's end ends the process, by `failure`
            if isinstance(error, DeviceMissing):
                log.error("engine_failed", reason=str(error))
            else:
                log.error("engine_failed", exc_info=error)
            self.failure = error
            self._end("failed", NotReady("The engine has failed."))

    def _next(self) -> list[Ticket[Job, Result]]:
        """The jobs of the next run; none at the end."""
        with self._change:
            self._running = []
            while self.state == "ok":
                if not self._line:
                    self._change.wait()
                elif (first := self._line.popleft()).begin():
                    self._running = [first]
                    self._take_along()
                    return self._running
            return []

    def _take_along(self) -> None:
        for ticket in list(self._line):
            jobs = [each.job for each in self._running]
            if self._may_join(jobs, ticket.job) and ticket.begin():
                self._line.remove(ticket)
                self._running.append(ticket)

    def _serve(self, run: Run[Job, Result], tickets: list[Ticket[Job, Result]]) -> None:
        error: WorkerError
        try:
            results = run([each.job for each in tickets], [each.watch for each in tickets])
        except EngineBroken:
            raise
        except WorkerError as failure:
            error = failure
            # Its answer may take a while, and must not hold what the failed run held.
            error.__traceback__ = error.__context__ = error.__cause__ = None
        except Exception as failure:  # one request's failure must not end the thread
            log.error("generation_failed", exc_info=failure)
            error = Refused() if isinstance(failure, NotImplementedError) else PipelineFailed()
        else:
            self._running = []
            for ticket, result in zip(tickets, results, strict=True):
                ticket.succeed(result)
            return
        self._running = []
        for ticket in tickets:
            ticket.fail(error)
