"""The engine thread with its waiting line: requests in, finished pictures out."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import structlog
from PIL import Image

from workers.engine import Engine, ImageLimits, Picture, PictureRequest, WorkerInfo
from workers.errors import WorkerError
from workers.load import Forecast, Load
from workers.pictures import Size, rounded_up
from workers.runner import Run, Runner, Ticket
from workers.schemas import ImagesRequest
from workers.telemetry import WorkerMetrics
from workers.watch import Watch

DEFAULT_STEPS = 30
DEFAULT_GUIDANCE = 1.5

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class GenerationJob:
    """What one HTTP request asks for: `count` pictures with seeds s, s+1, … cut to `size`."""

    first: PictureRequest
    count: int
    size: Size

    @classmethod
    def of(
        cls,
        fields: ImagesRequest,
        size: Size,
        limits: ImageLimits,
        sources: tuple[Image.Image, ...] = (),
    ) -> Self:
        """The job with every default filled in; sides rounded up to the model's step."""
        steps, guidance = fields.num_inference_steps, fields.guidance_scale
        first = PictureRequest(
            prompt=fields.prompt,
            width=rounded_up(size[0], limits.step),
            height=rounded_up(size[1], limits.step),
            steps=DEFAULT_STEPS if steps is None else steps,
            guidance=DEFAULT_GUIDANCE if guidance is None else guidance,
            seed=secrets.randbits(32) if fields.seed is None else fields.seed,
            sources=sources,
        )
        return cls(first, fields.n or 1, size)

    @property
    def requests(self) -> list[PictureRequest]:
        """One request per picture, in seed order."""
        return [replace(self.first, seed=self.first.seed + at) for at in range(self.count)]


@dataclass(frozen=True, slots=True)
class Generated:
    """The pictures of one job, in seed order; the engine's seconds and its peak memory in MB."""

    pictures: list[Picture]
    seconds: float
    peak_memory_mb: float


class GenerationLine:
    """Runs one job at a time, and knows how long what is here will take."""

    def __init__(self, info: WorkerInfo, load: Callable[[], Engine], waiting_limit: int) -> None:
        self._info = info
        self._forecast = Forecast()
        self.runner: Runner[GenerationJob, Generated] = Runner(
            lambda: self._warm(load), waiting_limit
        )
        self.metrics = WorkerMetrics(self.runner, lambda: self.load().predicted_seconds or 0.0)

    def load(self) -> Load:
        """What runs and waits now."""
        tickets = self.runner.tickets()
        running = [ticket for ticket in tickets if ticket.began is not None]
        seconds = [self._seconds_left(ticket) for ticket in tickets]
        known = [each for each in seconds if each is not None]
        return Load(
            in_flight=len(running),
            waiting=len(tickets) - len(running),
            capacity=1,
            predicted_seconds=sum(known) if len(known) == len(seconds) else None,
        )

    def _seconds_left(self, ticket: Ticket[GenerationJob, Generated]) -> float | None:
        one = self._forecast.seconds(ticket.job.first)
        if one is None:
            return None
        elapsed = 0.0 if ticket.began is None else time.monotonic() - ticket.began
        return max(0.0, one * ticket.job.count - elapsed)

    def _warm(self, load: Callable[[], Engine]) -> Run[GenerationJob, Generated]:
        began = time.monotonic()
        engine = load()
        engine.warm_up()
        log.info("ready", model=self._info.model, seconds=round(time.monotonic() - began, 3))
        return lambda jobs, watches: [
            self._run(engine, job, watch) for job, watch in zip(jobs, watches, strict=True)
        ]

    def _run(self, engine: Engine, job: GenerationJob, watch: Watch) -> Generated:
        began = time.monotonic()
        pictures = engine.generate(job.requests, watch)
        made = Generated(pictures, time.monotonic() - began, engine.peak_memory_mb())
        self._observe(job, made)
        return made

    def _observe(self, job: GenerationJob, made: Generated) -> None:
        for picture in made.pictures:
            self._forecast.learn(job.first, picture.stage_seconds)
            self.metrics.observe_stages(job.first.task, picture.stage_seconds)
        self.metrics.observe_run(
            pictures=job.count,
            tokens=sum(picture.completion_tokens for picture in made.pictures),
            encode_seconds=_total(made.pictures, "encode"),
            peak_memory_mb=made.peak_memory_mb,
        )

    @contextmanager
    def recorded(self, job: GenerationJob, request_id: str) -> Iterator[None]:
        """Counts and logs one request by its end: one line each."""
        began = time.monotonic()
        outcome = "CallerLeft"
        try:
            yield
            outcome = "ok"
        except WorkerError as error:
            outcome = type(error).__name__
            raise
        finally:
            self.metrics.requests.labels(job.first.task, outcome).inc()
            log.info(
                "generation",
                request_id=request_id[:128],
                task=job.first.task,
                size=f"{job.size[0]}x{job.size[1]}",
                steps=job.first.steps,
                n=job.count,
                outcome=outcome,
                seconds=round(time.monotonic() - began, 3),
            )


def _total(pictures: Sequence[Picture], stage: str) -> float:
    return sum(picture.stage_seconds.get(stage, 0.0) for picture in pictures)
