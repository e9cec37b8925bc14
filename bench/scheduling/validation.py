"""The simulator against the real gateway: one trace, through sockets and on paper.

Workers that sleep stand behind a whole gateway; a second of the model is some milliseconds here,
and all settings in seconds are scaled alike, so that both run the same product with the same
numbers. Only the gateway's own milliseconds are left to differ.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bench.scheduling.measures import percentile
from bench.scheduling.scenarios import ONE_POOL
from bench.scheduling.simulation import simulate
from bench.scheduling.traffic import Traffic
from bench.scheduling.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.scheduling.job import Job

SECOND: Final = 0.04
"""Seconds of the trial per second of the model."""
P50_ERROR: Final = 0.05
P99_ERROR: Final = 0.10


@dataclass(frozen=True, slots=True)
class Agreement:
    """Is one trace served twice; times are seconds from arrival to answer, by request."""

    load: float
    scale: float
    real: tuple[float, ...]
    simulated: tuple[float, ...]
    unserved: tuple[int, int]
    """Requests without an answer: at the gateway, in the simulator."""

    def pairs(self) -> Iterator[tuple[str, float, float]]:
        """Gives each percentile of the response time: its name, real, simulated."""
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            yield (
                f"response_{name}",
                percentile(self.real, share) / self.scale,
                percentile(self.simulated, share) / self.scale,
            )

    def error(self, metric: str) -> float:
        """Returns by which share the simulator's percentile is off."""
        [(real, simulated)] = [(r, s) for name, r, s in self.pairs() if name == metric]
        return abs(simulated / real - 1.0)

    @property
    def holds(self) -> bool:
        """Tells whether both are close enough."""
        return self.error("response_p50") <= P50_ERROR and self.error("response_p99") <= P99_ERROR


def validate(load: float, requests: int, seed: int = 1, second: float = SECOND) -> Agreement:
    """Serves one trace by the real gateway and by the simulator."""
    traffic = Traffic(
        load, requests=requests, deadline_seconds=600.0 * second, truth=Truth(scale=second)
    )
    jobs = traffic.trace(seed)
    jobs = [replace(job, caller="caller") for job in jobs]
    fates = simulate(jobs, ONE_POOL, "on_time")
    simulated = [
        fate.ended - job.arrived
        for job, fate in zip(jobs, fates, strict=True)
        if fate.ended is not None
    ]
    real = asyncio.run(_serve(jobs))
    answered = [seconds for seconds in real if seconds is not None]
    missing = (len(jobs) - len(answered), len(jobs) - len(simulated))
    return Agreement(load, second, tuple(answered), tuple(simulated), missing)


async def _serve(jobs: Sequence[Job]) -> list[float | None]:
    """Sends the trace to a real gateway, and returns the seconds of each answer."""
    # Only here: the package itself needs neither the tests nor a web framework.
    from tests.support.house import House
    from tests.support.scripted_worker import Recorded, answer_body, send

    clock = asyncio.get_running_loop().time
    bodies = {}
    for side in {job.side for job in jobs}:
        texts: dict[str, object] = {"prompt": "", "size": f"{side}x{side}", "output_format": "png"}
        bodies[side] = answer_body(Recorded("POST", "", {}, b"", texts))

    async def sleep(_: object, request: Recorded, writer: asyncio.StreamWriter) -> None:
        job = jobs[int(str(request.texts["prompt"]))]
        await asyncio.sleep(job.seconds)
        await send(writer, 200, bodies[job.side])

    async with House() as house:
        workers = [await house.worker("TI2I", script=sleep) for _ in range(ONE_POOL.workers)]
        deadline = jobs[0].deadline - jobs[0].arrived
        await house.open({"both": workers}, {"deadline_seconds": deadline, "probe_seconds": 5})

        async def ask(job: Job) -> float | None:
            await asyncio.sleep(begins + job.arrived - clock())
            asked = clock()
            answer = await house.generate(
                prompt=str(job.number), size=f"{job.side}x{job.side}", output_format="png"
            )
            return clock() - asked if answer.status_code == 200 else None

        begins = clock() + 0.1
        return list(await asyncio.gather(*map(ask, jobs)))
