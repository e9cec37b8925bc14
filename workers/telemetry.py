"""Log set-up and metrics. A prompt, a picture or a secret never gets here."""

import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from workers.runner import Runner

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500)


def configure_logging(stream: TextIO | None = None) -> None:
    """Events with fields, ours and the libraries', to stdout: JSON lines unless a terminal."""
    out = stream or sys.stdout
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # The plain traceback: the default one for terminals shows local values, prompts among them.
    last: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if out.isatty()
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.getLogger().handlers = [handler]
    logging.getLogger().setLevel(logging.WARNING)
    # Pillow warns of every oddity in a caller's picture; what matters is answered.
    warnings.filterwarnings("ignore", category=UserWarning, module="PIL")


class WorkerMetrics:
    """The metrics of one worker, in a registry of its own."""

    def __init__(self, runner: Runner[Any, Any], predicted_seconds: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "turnout_worker_requests",
            "Image requests by their end.",
            ("task", "outcome"),
            registry=self.registry,
        )
        self.stages = Histogram(
            "turnout_worker_stage_seconds",
            "Seconds per stage of one picture.",
            ("task", "stage"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._batch = Histogram(
            "turnout_worker_batch_size",
            "Pictures per run of the engine.",
            buckets=BATCH_SIZES,
            registry=self.registry,
        )
        self._speed = Gauge(
            "turnout_worker_tokens_per_second",
            "Tokens per second of the latest encoding.",
            registry=self.registry,
        )
        self._memory = Gauge(
            "turnout_worker_peak_memory_bytes",
            "The most memory the engine has held.",
            registry=self.registry,
        )
        Gauge(
            "turnout_worker_predicted_seconds",
            "Seconds until all that runs and waits is done.",
            registry=self.registry,
        ).set_function(predicted_seconds)
        observe_runner("turnout_worker", runner, self.registry)

    def observe_stages(self, task: str, seconds: Mapping[str, float]) -> None:
        """Counts one picture's stages."""
        for stage, value in seconds.items():
            self.stages.labels(task, stage).observe(value)

    def observe_run(
        self, pictures: int, tokens: int, encode_seconds: float, peak_memory_mb: float
    ) -> None:
        """Counts one run of the engine."""
        self._batch.observe(pictures)
        self._memory.set(peak_memory_mb * 2**20)
        if encode_seconds > 0:
            self._speed.set(tokens / encode_seconds)


class EncoderMetrics:
    """The metrics of one encoder server, in a registry of its own."""

    def __init__(self, runner: Runner[Any, Any]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "turnout_encoder_requests",
            "Rows decoded, by what they are for.",
            ("task",),
            registry=self.registry,
        )
        for task in ("t2i", "i2i"):
            self.requests.labels(task)
        self.tokens = Counter("turnout_encoder_tokens", "Tokens decoded.", registry=self.registry)
        self.steps = Counter(
            "turnout_encoder_steps", "Steps of the decoder.", registry=self.registry
        )
        self.seconds = Histogram(
            "turnout_encoder_decode_seconds",
            "Seconds per call, waiting included.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._batch = Histogram(
            "turnout_encoder_batch_size",
            "Rows per decoded batch.",
            buckets=BATCH_SIZES,
            registry=self.registry,
        )
        self._speed = Gauge(
            "turnout_encoder_tokens_per_second",
            "Tokens per second of the latest batch, all rows together.",
            registry=self.registry,
        )
        self._memory = Gauge(
            "turnout_encoder_peak_memory_bytes",
            "The most memory the decoder has held.",
            registry=self.registry,
        )
        observe_runner("turnout_encoder", runner, self.registry)

    def observe_batch(self, rows: int, tokens: int, seconds: float, memory_mb: float) -> None:
        """Counts one decoded batch."""
        self._batch.observe(rows)
        self._speed.set(tokens / seconds)
        self._memory.set(memory_mb * 2**20)


def observe_runner(prefix: str, runner: Runner[Any, Any], registry: CollectorRegistry) -> None:
    """Gauges that read the runner when they are scraped."""
    gauges = (
        ("in_flight", "Jobs running now.", lambda: runner.in_flight),
        ("waiting", "Jobs in the line.", lambda: runner.waiting),
        ("ready", "1 once warm.", lambda: int(runner.state == "ok")),
    )
    for name, text, read in gauges:
        Gauge(f"{prefix}_{name}", text, registry=registry).set_function(read)
