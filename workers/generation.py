"""One request's pictures, from the line through the engine to the answer's bytes."""

import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import pybase64
import structlog
from fastapi import Request
from PIL import Image
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from workers.engine import Engine, HasLeft, ImageLimits, Picture, PictureRequest, WorkerInfo
from workers.errors import CallerLeft, NotBegun, WorkerError, WorkLost
from workers.pictures import Size, rounded_up, write_picture
from workers.runner import Run, Runner
from workers.schemas import ImageItem, ImagesAnswer, ImagesRequest, Usage
from workers.telemetry import WorkerMetrics
from workers.waiting import result_of

DEFAULT_STEPS = 30
DEFAULT_GUIDANCE = 1.5
DEFAULT_FORMAT = "jpeg"
IGNORED_HEADER = "x-turnout-ignored"

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


@dataclass(frozen=True, slots=True)
class Generated:
    """The pictures of one job, in seed order; the engine's seconds and its peak memory in MB."""

    pictures: list[Picture]
    seconds: float
    peak_memory_mb: float


class GenerationLine:
    """The engine thread with its waiting line, and what comes before and after it."""

    def __init__(self, info: WorkerInfo, load: Callable[[], Engine], waiting_limit: int) -> None:
        self._info = info
        self.runner: Runner[GenerationJob, Generated] = Runner(
            lambda: self._warm(load), waiting_limit
        )
        self.metrics = WorkerMetrics(self.runner)

    def _warm(self, load: Callable[[], Engine]) -> Run[GenerationJob, Generated]:
        began = time.monotonic()
        engine = load()
        engine.warm_up()
        log.info("ready", model=self._info.model, seconds=round(time.monotonic() - began, 3))
        return lambda job, has_left: self._run(engine, job, has_left)

    def _run(self, engine: Engine, job: GenerationJob, has_left: HasLeft) -> Generated:
        pictures: list[Picture] = []
        began = time.monotonic()
        for number in range(job.count):
            if has_left():
                raise CallerLeft
            request = replace(job.first, seed=job.first.seed + number)
            try:
                picture = engine.generate(request, has_left)
            except NotBegun as error:
                if not pictures:
                    raise
                raise WorkLost from error
            self.metrics.observe_stages(request.task, picture.stage_seconds)
            pictures.append(picture)
        return Generated(pictures, time.monotonic() - began, engine.peak_memory_mb())

    async def answer(self, job: GenerationJob, fields: ImagesRequest, request: Request) -> Response:
        """Waits for the pictures and writes SGLang's answer; one log line per request."""
        began = time.monotonic()
        outcome = "cancelled"
        try:
            made = await result_of(self.runner.submit(job), request)
            body = await run_in_threadpool(self._body, job, made, fields)
            outcome = "ok"
        except WorkerError as error:
            outcome = type(error).__name__
            raise
        finally:
            self.metrics.requests.labels(job.first.task, outcome).inc()
            log.info(
                "generation",
                request_id=request.headers.get("x-request-id", "")[:128],
                task=job.first.task,
                size=f"{job.size[0]}x{job.size[1]}",
                steps=job.first.steps,
                n=job.count,
                outcome=outcome,
                seconds=round(time.monotonic() - began, 3),
            )
        # GLM-Image has no negative prompt; SGLang drops it without a word, we say so.
        headers = {IGNORED_HEADER: "negative_prompt"} if fields.negative_prompt else {}
        return Response(body, media_type="application/json", headers=headers)

    def _body(self, job: GenerationJob, made: Generated, fields: ImagesRequest) -> bytes:
        items = []
        for picture in made.pictures:
            cut = picture.image.crop((0, 0, *job.size))
            data = write_picture(cut, fields.output_format or DEFAULT_FORMAT, fields.quality)
            items.append(ImageItem(b64_json=pybase64.b64encode(data).decode("ascii")))
        answer = ImagesAnswer(
            id=uuid.uuid4().hex,
            created=int(time.time()),
            data=items,
            peak_memory_mb=made.peak_memory_mb,
            inference_time_s=round(made.seconds, 4),
            usage=self._usage(made.pictures),
        )
        return answer.model_dump_json().encode()

    def _usage(self, pictures: list[Picture]) -> Usage | None:
        if self._info.encoder == "in-process":
            return None
        prompt = sum(picture.prompt_tokens for picture in pictures)
        completion = sum(picture.completion_tokens for picture in pictures)
        return Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            image_count=len(pictures),
        )
