"""The rule of one configuration from (task, model) to pools: immutable, swapped as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.errors import InvalidRequest, NotFound, NoWorker
from gateway.routing.pool import Pool
from gateway.routing.worker import Worker

if TYPE_CHECKING:
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

    def model(self, name: str | None) -> ModelConfig:
        """Returns the model that the client named; None is the only one.

        Raises InvalidRequest where a choice is missing, NotFound for an unknown name.
        """
        models = self.config.models
        if name is None:
            if len(models) == 1:
                return next(iter(models.values()))
            raise InvalidRequest(
                f"'model' is missing; there are several: {', '.join(models)}",
                code="model_required",
                param="model",
            )
        for key, model in models.items():
            if name == key or name in model.aliases:
                return model
        raise NotFound(
            f"this model does not exist here; known: {', '.join(models)}",
            code="model_not_found",
            param="model",
        )

    def pool(self, task: Task) -> Pool:
        """Returns the pool for a task: the first that can serve it, in order of choice.

        The first choice is the pool that lists the task first. A picture never leads to a pool
        that does not list `i2i`. Raises NoWorker where no pool can serve.
        """
        choices = sorted(
            (pool for pool in self.pools if task in pool.tasks),
            key=lambda pool: pool.tasks.index(task),
        )
        for pool in choices:
            if pool.missing(task) is None:
                return pool
        reason = choices[0].missing(task) if choices else None
        raise no_worker(task, reason or f"no pool serves {task.value}")


def no_worker(task: Task, reason: str) -> NoWorker:
    """Builds the error for a task that nobody can serve now."""
    return NoWorker(
        f"{task.value} cannot be served now: {reason}; try again later",
        retry_after=RETRY_AFTER_NO_WORKER_SECONDS,
    )
