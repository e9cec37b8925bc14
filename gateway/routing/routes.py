"""The rule of one configuration from (task, model) to pools: immutable, swapped as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.errors import InvalidRequest, NotFound, NoWorker
from gateway.routing.pool import Pool
from gateway.routing.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gateway.config import Config, ModelConfig
    from gateway.routing.request import Task

RETRY_AFTER_NO_WORKER_SECONDS: Final = 5.0


@dataclass(frozen=True)
class RouteTable:
    """Knows every pool and every model of one configuration."""

    config: Config
    pools: tuple[Pool, ...]

    @classmethod
    def build(cls, config: Config) -> RouteTable:
        """Builds the pools and their workers, all unproven."""
        pools = {name: Pool(name, section) for name, section in config.pools.items()}
        for name, pool_name, section in config.worker_names():
            worker = Worker(name, section.url, section.capacity, section.stops_on_disconnect)
            pools[pool_name].add(worker)
        return cls(config, tuple(pools.values()))

    def model(self, name: str | None) -> tuple[str, ModelConfig]:
        """Returns a model and the name that the client gave it; None is the only one.

        Raises InvalidRequest where a choice is missing, NotFound for an unknown name.
        """
        models = self.config.models
        if name is None:
            if len(models) == 1:
                return next(iter(models.items()))
            raise InvalidRequest(
                f"'model' is missing; there are several: {', '.join(models)}",
                code="model_required",
                param="model",
            )
        for key, model in models.items():
            if name == key or name in model.aliases:
                return name, model
        raise NotFound(
            f"this model does not exist here; known: {', '.join(models)}",
            code="model_not_found",
            param="model",
        )

    def choices(self, task: Task) -> tuple[Pool, ...]:
        """Lists the pools for a task in order of choice: first the one that lists it first.

        A picture never leads to a pool that does not list `i2i`. Raises NoWorker where none does.
        """
        able = (pool for pool in self.pools if task in pool.tasks)
        ordered = tuple(sorted(able, key=lambda pool: pool.tasks.index(task)))
        if not ordered:
            raise NoWorker(
                f"no pool of this gateway serves {task.value}",
                retry_after=RETRY_AFTER_NO_WORKER_SECONDS,
            )
        return ordered


def choose(choices: Iterable[Pool], task: Task, without: Collection[Worker] = ()) -> Pool:
    """Returns the first pool that can serve the task. Raises NoWorker with the first's reason."""
    reasons = []
    for pool in choices:
        reason = pool.missing(task, without)
        if reason is None:
            return pool
        reasons.append(reason)
    raise no_worker(task, reasons[0])


def no_worker(task: Task, reason: str) -> NoWorker:
    """Builds the error for a task that nobody can serve now."""
    return NoWorker(
        f"{task.value} cannot be served now: {reason}; try again later",
        retry_after=RETRY_AFTER_NO_WORKER_SECONDS,
    )
