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
        str, typer.Option(metavar="in-process|URL", help="Where the autoregressive half runs.")
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
    """Serve a worker: text to image, and image to image if the encoder is in process."""
    configure_logging()
    url = None if encoder == IN_PROCESS else encoder.rstrip("/")
    if url is not None and not url.startswith(("http://", "https://")):
        _fail(f"--encoder must be 'in-process' or an http URL, not {encoder!r}.", 2)
    chosen = dict(TASKS).get(tasks or ("t2i,i2i" if url is None else "t2i"))
    if chosen is None:
        _fail(f"--tasks must be 't2i' or 't2i,i2i', not {tasks!r}.", 2)
    if url is not None and "i2i" in chosen:
        _fail("--tasks t2i,i2i needs --encoder in-process for now.", 2)
    checkpoint = _checkpoint(model)
    sock = _listen(host, port)
    info = WorkerInfo(
        model=checkpoint.name,
        tasks=chosen,
        encoder="in-process" if url is None else "external",
        encoder_url=url,
        limits=checkpoint.limits,
    )
    load = _engine_loader(checkpoint, url, device.value)
    serve(create_app(info, load), sock)


def _engine_loader(checkpoint: Checkpoint, url: str | None, device: str) -> Callable[[], Engine]:
    def load() -> Engine:
        # Seconds of imports: they belong in the engine thread, where /health can be asked already.
        from workers.glm_image import load_engine

        return load_engine(checkpoint, url, device)

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
