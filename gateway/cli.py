"""The command line: `turnout serve`, `turnout up`, `turnout check`."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from gateway.config_file import ConfigError, load_config
from gateway.errors import GatewayError, InvalidRequest, render
from gateway.explain import explain
from gateway.routing.request import Task
from gateway.routing.routes import RouteTable
from gateway.server import PortTaken, Source
from gateway.server import serve as serve_forever
from gateway.transport.artifacts import StoreFault
from gateway.transport.probe import Report, probe, probe_client
from gateway.transport.prober import take_in

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.routing.pool import Pool
    from gateway.routing.worker import Worker

app = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Turnout: one endpoint for text-to-image and image-to-image.",
)

ConfigPath = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file; else TURNOUT_CONFIG, else ./turnout.toml."),
]
DemoPort = Annotated[int, typer.Option(min=1, max=65535)]
PROBE_TIMEOUT_SECONDS = 5.0


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(importlib.metadata.version("turnout"))
        raise typer.Exit


def main() -> None:
    """Runs the command line."""
    app()


@app.command()
def serve(
    config: ConfigPath = None,
    host: Annotated[str | None, typer.Option(help="Address for clients.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port for clients.")] = None,
) -> None:
    """Run the gateway until SIGTERM or Ctrl-C."""
    typed = {name: v for name, v in (("host", host), ("port", port)) if v is not None}
    try:
        asyncio.run(serve_forever(Source(_chosen(config), typed)))
    except InvalidRequest as error:
        _fail(error.message, 2)
    except PortTaken as error:
        _fail(f"{error}; choose another with --port or in the configuration", 1)
    except StoreFault as error:
        _fail(str(error), 1)


@app.command()
def up(
    port: DemoPort = 8000,
    admin_port: DemoPort = 8001,
    encoder_port: DemoPort = 30001,
    t2i_port: DemoPort = 30010,
    i2i_port: DemoPort = 30020,
    directory: Annotated[
        Path, typer.Option("--dir", help="Keeps the tiny checkpoint and the logs.")
    ] = Path(".turnout"),
) -> None:
    """Run the whole demo on this machine: encoder, two workers, gateway."""
    from gateway.up import Demo, DemoFailed  # the demo alone needs it

    ports = (port, admin_port, encoder_port, t2i_port, i2i_port)
    try:
        Demo(directory, *ports).run()
    except DemoFailed as error:
        _fail(str(error), 1)


@app.command()
def check(config: ConfigPath = None) -> None:
    """Print the resolved configuration and probe every worker."""
    loaded = _load(config)
    console = Console(soft_wrap=True)
    console.print_json(loaded.model_dump_json())
    table = Table("pool", "server", "address", "state")
    rows = asyncio.run(_probe_all(loaded))
    for pool, name, address, problem, note in rows:
        table.add_row(pool, name, address, problem or f"ok{note}")
    console.print(table)
    for task in ("t2i", "i2i"):
        if not any(task in pool.tasks for pool in loaded.pools.values()):
            console.print(f"note: no pool serves {task}; such requests get 503")
    if any(row.problem for row in rows):
        raise typer.Exit(1)


@app.command(name="explain")
def explain_request(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A JSON request; - reads stdin.")],
    config: ConfigPath = None,
) -> None:
    """Say what would become of a request, without sending anything."""
    loaded = _load(config)
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        _fail(f"{file}: cannot be read: {error.strerror}", 1)
    try:
        explained = asyncio.run(explain(data, loaded))
    except GatewayError as error:
        print(render(error).body.decode())
        raise typer.Exit(2) from None
    print(json.dumps(explained, indent=2, ensure_ascii=False))


class Row(NamedTuple):
    """Is what `check` says of one server; `problem` is None where it is good."""

    pool: str
    name: str
    address: str
    problem: str | None
    note: str = ""


async def _probe_all(config: Config) -> list[Row]:
    """Probes every worker and every encoder."""
    rows = []
    pools = RouteTable.build(config).pools
    async with probe_client() as client:
        for pool in pools:
            for worker in pool.workers:
                report = await probe(client, worker.url, PROBE_TIMEOUT_SECONDS, with_tasks=True)
                take_in(worker, report)
                problem = _problem(report, pool, worker)
                rows.append(Row(pool.name, worker.name, worker.url, problem, _note(report, config)))
        for pool in pools:
            if (url := pool.config.encoder_url) is not None:
                report = await probe(client, url, PROBE_TIMEOUT_SECONDS, with_tasks=False)
                problem = None if report.is_good else report.detail
                rows.append(Row(pool.name, "encoder", url, problem))
    return rows


def _note(report: Report, config: Config) -> str:
    larger = [
        name
        for name, model in config.models.items()
        if report.max_side is not None and model.max_side > report.max_side
    ]
    if not larger:
        return ""
    return f", but paints sides up to {report.max_side} only; lower max_side of {', '.join(larger)}"


def _problem(report: Report, pool: Pool, worker: Worker) -> str | None:
    if not report.is_good:
        return report.detail
    if not (lacking := pool.lacks(worker)):
        return None
    capability = worker.capability
    is_behind_encoder = capability.has_to_declare or capability.is_external
    if Task.I2I in lacking and is_behind_encoder and not capability.is_declared:
        return "does not say that it reads pictures itself"
    return f"cannot do {', '.join(task.value for task in lacking)}"


def _chosen(path: Path | None) -> Path:
    return path or Path(os.environ.get("TURNOUT_CONFIG", "turnout.toml"))


def _load(path: Path | None) -> Config:
    try:
        return load_config(_chosen(path))
    except ConfigError as error:
        _fail(str(error), 2)


def _fail(sentence: str, code: int) -> NoReturn:
    print(f"turnout: {sentence}", file=sys.stderr)
    raise typer.Exit(code)
