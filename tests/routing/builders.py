"""Makes what the deciding layer works on: payloads, tickets, workers, pools, lines, tables."""

from __future__ import annotations

from gateway.config import Config, LimitsConfig, PoolConfig
from gateway.routing.cost import Cost
from gateway.routing.cost_model import ENOUGH, PRIOR
from gateway.routing.health import Sign
from gateway.routing.inspection import Face, inspect
from gateway.routing.line import Line
from gateway.routing.outcome import Cause
from gateway.routing.pool import Lease, Pool
from gateway.routing.request import ImageRequest, InputImage, Payload, Task
from gateway.routing.routes import RouteTable
from gateway.routing.ticket import Ticket
from gateway.routing.worker import Worker

LIMITS = LimitsConfig()
NEVER = 1e9
"""A deadline that nobody meets in a test, in seconds."""


def read(*entries: tuple[str, object], face: Face = Face.GENERATE, **limits) -> ImageRequest:
    """Inspects a JSON object's members, given in order."""
    return inspect(Payload(entries), face, LimitsConfig(**limits))


def read_form(*entries: tuple[str, object], face: Face = Face.GENERATE, **limits) -> ImageRequest:
    """Inspects a form's parts, given in order."""
    return inspect(Payload(entries, is_form=True), face, LimitsConfig(**limits))


def image(width: int, height: int) -> InputImage:
    """Makes a checked input picture; nobody here looks at its bytes."""
    return InputImage(b"", "png", width, height)


def cost(seconds: float) -> Cost:
    """Makes a cost that takes so many seconds, at least 2, by the model before its samples."""
    return Cost(0, round((seconds - PRIOR[0]) / PRIOR[2]))


def ticket(task: Task = Task.T2I, seconds: float = 10.0, **options) -> Ticket:
    """Makes a ticket of a picture that takes so many seconds."""
    options = {"arrived": 0.0, "deadline": NEVER} | options
    return Ticket(task=task, cost=cost(seconds), **options)


def up(worker: Worker) -> Worker:
    """Lets a worker answer a probe."""
    worker.health.see(Sign.GOOD_PROBE)
    return worker


def worker(name: str = "i2i-0", capacity: int = 1) -> Worker:
    """Makes a worker that is up."""
    return up(Worker(name, f"http://{name}.test", capacity))


def pool(*workers: Worker, tasks: tuple[str, ...] = ("t2i", "i2i"), **options) -> Pool:
    """Makes a pool over workers."""
    return Pool("both", PoolConfig(tasks=tasks, **options), workers)


def line(*workers: Worker, tasks: tuple[str, ...] = ("t2i", "i2i"), **options) -> Line:
    """Makes the line before a pool over workers."""
    return Line(pool(*workers, tasks=tasks, **options))


def join(line: Line, *tickets: Ticket) -> tuple[Ticket, ...]:
    """Puts tickets into a line, one after the other."""
    for each in tickets:
        line.join(each)
    return tickets


def take(pool: Pool, ticket: Ticket, now: float = 0.0) -> Lease | None:
    """Takes the slot that the pool's balance chooses, or none where none is free."""
    ticket.predicted = pool.predict(ticket)
    free = pool.free(ticket, now)
    return pool.take(ticket, pool.choose(ticket, free, now), now) if free else None


def train(pool: Pool, pace: float = 1.0, samples: int = ENOUGH) -> Pool:
    """Lets the pool's models see as many pictures as they need, of 2 to 30 seconds each."""
    for model in pool.costs.values():
        for number in range(samples):
            seconds = 2.0 + 28.0 * (number % ENOUGH) / (ENOUGH - 1)
            model.learn(cost(seconds), seconds * pace)
    return pool


def fail(pool: Pool, worker: Worker, cause: Cause = Cause.BAD_STATUS, now: float = 0.0) -> None:
    """Lets a worker fail one request."""
    pool.take(ticket(), worker, now).end(cause, now)


def trip(pool: Pool, worker: Worker, now: float = 0.0) -> None:
    """Lets a worker fail so often in a row that it is rested, if it may be."""
    for _ in range(worker.breaker.threshold):
        fail(pool, worker, now=now)


def table(**pools: dict) -> RouteTable:
    """Builds a route table; every worker and every encoder in it is up."""
    built = RouteTable.build(Config.model_validate({"pools": pools}))
    for each in built.pools:
        for one in each.workers:
            up(one)
        if each.encoder is not None:
            each.encoder.see(Sign.GOOD_PROBE)
    return built


def section(*tasks: str, workers: int = 1, **options) -> dict:
    """Writes a pool's section, its workers at addresses made up from its tasks."""
    urls = [f"http://{'-'.join(tasks)}-{number}.test" for number in range(workers)]
    return {"tasks": list(tasks), "workers": [{"url": url} for url in urls], **options}
