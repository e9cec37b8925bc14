"""Makes what the deciding layer works on: payloads, pools, workers, configurations."""

from __future__ import annotations

from gateway.config import Config, LimitsConfig, PoolConfig
from gateway.routing.health import Sign
from gateway.routing.inspection import Face, inspect
from gateway.routing.pool import Pool
from gateway.routing.request import ImageRequest, InputImage, Payload
from gateway.routing.routes import RouteTable
from gateway.routing.worker import Worker

LIMITS = LimitsConfig()


def read(*entries: tuple[str, object], face: Face = Face.GENERATE, **limits) -> ImageRequest:
    """Inspects a JSON object's members, given in order."""
    return inspect(Payload(entries), face, LimitsConfig(**limits))


def read_form(*entries: tuple[str, object], face: Face = Face.GENERATE, **limits) -> ImageRequest:
    """Inspects a form's parts, given in order."""
    return inspect(Payload(entries, is_form=True), face, LimitsConfig(**limits))


def image(width: int, height: int) -> InputImage:
    """Makes a checked input picture; nobody here looks at its bytes."""
    return InputImage(b"", "png", width, height)


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
