"""The command line of the workers."""

import socket
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from workers.app import create_app
from workers.checkpoint import Checkpoint, read_checkpoint
from workers.encoder_app import create_encoder_app
from workers.engine import Engine, Task, WorkerInfo
from workers.errors import CheckpointError
from workers.serving import PortInUse, listen, serve
from workers.telemetry import configure_logging

TASKS: tuple[tuple[str, tuple[Task, ...]], ...] = (("t2i", ("t2i",)), ("t2i,i2i", ("t2i", "i2i")))
IN_PROCESS = "in-process"

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__
)


class Device(StrEnum):
    """Where the model runs; auto takes a GPU if there is one."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


ModelOption = Annotated[Path, typer.Option(help="Directory of a GLM-Image checkpoint.")]
HostOption = Annotated[str, typer.Option(help="Address to listen on.")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")]
DeviceOption = Annotated[Device, typer.Option(help="auto takes a GPU if there is one.")]


@app.command()
def tiny(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write it.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random weights.")] = 0,
) -> None:
    """Write a tiny random GLM-Image checkpoint with the real architecture."""
    if "glm-image" not in directory.name:
        print(
            f"Warning: {directory.name} does not contain 'glm-image'; SGLang would not know the "
            "model by this name.",
            file=sys.stderr,
        )
    try:
        checkpoint = read_checkpoint(directory)
    except CheckpointError:
        checkpoint = None
    if checkpoint is not None:
        print(f"{directory} already holds a checkpoint; it is left as it is.")
        return
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        _fail(f"{directory} exists and holds no checkpoint; nothing was written.")
    from workers.tiny import write_tiny

    try:
        size = write_tiny(directory, seed)
    except OSError as error:
        _fail(f"{directory} cannot be written: {error.strerror}.")
    print(f"{directory}: {size / 1e6:.2f} MB")


@app.command()
def encoder(
    model: ModelOption,
    host: HostOption = "127.0.0.1",
    port: PortOption = 30001,
    device: DeviceOption = Device.auto,
) -> None:
    """Serve the autoregressive half with SGLang's /generate contract."""
    configure_logging()
    checkpoint = _checkpoint(model)
    sock = _listen(host, port)
    serve(create_encoder_app(checkpoint, device.value), sock)


@app.command(name="serve")
def serve_worker(
    model: ModelOption,
    encoder: Annotated[
        list[str],
        typer.Option(
            metavar="in-process|URL[,URL]",
            help="Where the autoregressive half runs; may be given several times.",
        ),
    ],
    tasks: Annotated[
        str | None,
        typer.Option(
            metavar="t2i|t2i,i2i", help="Default: t2i with a URL, t2i,i2i with the encoder inside."
        ),
    ] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 30010,
    device: DeviceOption = Device.auto,
) -> None:
    """Serve a worker; with encoder URLs it holds no language model."""
    configure_logging()
    urls = _encoder_urls(encoder)
    chosen = dict(TASKS).get(tasks or ("t2i" if urls else "t2i,i2i"))
    if chosen is None:
        _fail(f"--tasks must be 't2i' or 't2i,i2i', not {tasks!r}.", 2)
    checkpoint = _checkpoint(model)
    sock = _listen(host, port)
    info = WorkerInfo(
        model=checkpoint.name,
        tasks=chosen,
        encoder_urls=urls,
        limits=checkpoint.limits,
    )
    serve(create_app(info, _engine_loader(checkpoint, info, device.value)), sock)


def _encoder_urls(given: list[str]) -> tuple[str, ...]:
    """The servers, none for in-process; several may share one option, with commas between."""
    urls = [part.strip().rstrip("/") for value in given for part in value.split(",")]
    if urls == [IN_PROCESS]:
        return ()
    for url in urls:
        if not url.startswith(("http://", "https://")):
            _fail(f"--encoder must be 'in-process' or http URLs, not {url!r}.", 2)
    return tuple(dict.fromkeys(urls))


def _engine_loader(checkpoint: Checkpoint, info: WorkerInfo, device: str) -> Callable[[], Engine]:
    def load() -> Engine:
        # Seconds of imports: they belong in the engine thread, where /health can be asked already.
        from workers.glm_image import load_engine

        return load_engine(checkpoint, info.encoder_urls, device, info.tasks)

    return load


def _checkpoint(model: Path) -> Checkpoint:
    try:
        return read_checkpoint(model)
    except CheckpointError as error:
        _fail(str(error))


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except PortInUse as error:
        _fail(str(error))


def _fail(sentence: str, code: int = 1) -> NoReturn:
    print(sentence, file=sys.stderr)
    raise typer.Exit(code)


def main() -> None:
    """Entry point of `turnout-worker`."""
    app()
