"""The rule of one configuration from (task, model) to pools: immutable, swapped as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from gateway.errors import InvalidRequest, NotFound, NoWorker
from gateway.routing.pool import RETRY_AFTER_SECONDS, Pool
from gateway.routing.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gateway.config import Config, ModelConfig, WorkerConfig
    from gateway.routing.request import Task


@dataclass(frozen=True)
class RouteTable:
    """Knows every pool and every model of one configuration."""

    config: Config
    pools: tuple[Pool, ...]
    former: tuple[Pool, ...] = ()
    """Pools that are no longer named and may still have work."""

    @classmethod
    def build(cls, config: Config) -> RouteTable:
        """Builds the pools and their workers, all unproven."""
        return cls(config, ()).evolve(config)

    def evolve(self, config: Config) -> RouteTable:
        """Builds the next configuration's table around the pools and workers that live on.

        A pool lives on by its name, a worker by its address; workers that are no longer named
        get nothing new, and are forgotten when their last lease ends. A pool that is no longer
        named keeps its workers, for those who wait in it.
        """
        before = {pool.name: pool for pool in self.pools}
        known = self._known()
        pools = {}
        for name, section in config.pools.items():
            pools[name] = before.get(name) or Pool(name, section)
            pools[name].configure(section)
        chosen: dict[str, list[Worker]] = {name: [] for name in pools}
        for name, pool_name, entry in config.worker_names():
            worker = known.get(entry.url) or Worker(name, entry.url)
            pool = pools[pool_name]
            worker.configure(name, entry, via_encoder=pool.config.encoder_url is not None)
            chosen[pool_name].append(worker)
        for name, pool in pools.items():
            pool.replace(chosen[name])
        former = (pool for pool in (*self.former, *self.pools) if pool not in pools.values())
        still = (pool for pool in former if pool.workers or pool.leaving)
        return RouteTable(config, tuple(pools.values()), tuple(still))

    def _known(self) -> dict[str, Worker]:
        """Lists every worker that is in a pool or still at work for one, by address."""
        pools = (*self.former, *self.pools)
        return {worker.url: worker for pool in pools for worker in (*pool.leaving, *pool.workers)}

    def add_worker(self, pool_name: str, config: WorkerConfig) -> Worker:
        """Takes a worker into a pool. Raises NotFound, or InvalidRequest where it is known."""
        pool = next((pool for pool in self.pools if pool.name == pool_name), None)
        if pool is None:
            raise NotFound(f"there is no pool '{pool_name}'")
        known = [worker for each in self.pools for worker in each.workers]
        names = {worker.name for worker in known}
        free = (f"{pool_name}-{number}" for number in count(len(pool.workers)))
        name = config.name or next(each for each in free if each not in names)
        if name in names:
            raise InvalidRequest(f"there is a worker '{name}' already", param="name")
        if config.url in {worker.url for worker in known}:
            raise InvalidRequest("there is a worker at this address already", param="url")
        worker = self._known().get(config.url) or Worker(name, config.url)
        worker.configure(name, config, via_encoder=pool.config.encoder_url is not None)
        worker.is_drained = False
        pool.replace((*pool.workers, worker))
        return worker

    def remove_worker(self, name: str) -> Worker:
        """Takes a worker out of its pool. Raises NotFound."""
        worker = self.worker(name)
        for pool in self.pools:
            pool.replace([each for each in pool.workers if each is not worker])
        return worker

    def worker(self, name: str) -> Worker:
        """Finds a worker by its name. Raises NotFound."""
        for pool in self.pools:
            for worker in pool.workers:
                if worker.name == name:
                    return worker
        raise NotFound(f"there is no worker '{name}'")

    def pool_of(self, worker: Worker) -> Pool | None:
        """Finds the pool of a worker; None where it has left."""
        return next((pool for pool in self.pools if worker in pool.workers), None)

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
                retry_after=RETRY_AFTER_SECONDS,
            )
        return ordered


def choose(
    choices: Sequence[Pool], task: Task, now: float, without: Collection[Worker] = ()
) -> Pool:
    """Returns the first pool that can serve the task. Raises NoWorker with the first's reason."""
    reasons = []
    for pool in choices:
        pool.look(now)
        reason = pool.missing(task, without)
        if reason is None:
            return pool
        reasons.append(reason)
    raise no_worker(task, reasons[0], choices[0].retry_after(now))


def no_worker(task: Task, reason: str, retry_after: float) -> NoWorker:
    """Builds the error for a task that nobody can serve now; times are in seconds."""
    return NoWorker(
        f"{task.value} cannot be served now: {reason}; try again later", retry_after=retry_after
    )
