"""The command line: `turnout serve`, `turnout up`, `turnout check`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from gateway.config import Config, ConfigError, load_config
from gateway.server import PortTaken
from gateway.server import serve as serve_forever
from gateway.transport.prober import Report, probe, probe_client

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Turnout: one endpoint for text-to-image and image-to-image.",
)

ConfigPath = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file; else TURNOUT_CONFIG, else ./turnout.toml."),
]
PROBE_TIMEOUT_SECONDS = 5.0


def main() -> None:
    """Runs the command line."""
    app()


@app.command()
def serve(
    config: ConfigPath = None,
    host: Annotated[str | None, typer.Option(help="Address for clients.")] = None,
    port: Annotated[int | None, typer.Option(help="Port for clients.")] = None,
) -> None:
    """Run the gateway until SIGTERM or Ctrl-C."""
    loaded = _load(config)
    changes = {name: v for name, v in (("host", host), ("port", port)) if v is not None}
    server = loaded.server.model_copy(update=changes)
    try:
        asyncio.run(serve_forever(loaded.model_copy(update={"server": server})))
    except PortTaken as error:
        _fail(f"{error}; choose another with --port or in the configuration", 1)


@app.command()
def up(
    port: Annotated[int, typer.Option(help="Gateway, for clients.")] = 8000,
    admin_port: Annotated[int, typer.Option(help="Gateway, for operators.")] = 8001,
    encoder_port: Annotated[int, typer.Option(help="Encoder server.")] = 30001,
    t2i_port: Annotated[int, typer.Option(help="Text-to-image worker.")] = 30010,
    i2i_port: Annotated[int, typer.Option(help="Image-to-image worker.")] = 30020,
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
    for pool, name, address, problem in rows:
        table.add_row(pool, name, address, problem or "ok")
    console.print(table)
    if any(problem for *_, problem in rows):
        raise typer.Exit(1)


async def _probe_all(config: Config) -> list[tuple[str, str, str, str | None]]:
    """Probes workers and encoders; the last of each row is what is wrong, or None."""
    rows = []
    async with probe_client() as client:
        for name, pool, worker in config.worker_names():
            url = worker.url.rstrip("/")
            report = await probe(client, url, PROBE_TIMEOUT_SECONDS, with_tasks=True)
            rows.append((pool, name, url, _problem(report, config.pools[pool].tasks)))
        for pool, section in config.pools.items():
            if section.encoder_url is not None:
                url = section.encoder_url.rstrip("/")
                report = await probe(client, url, PROBE_TIMEOUT_SECONDS, with_tasks=False)
                rows.append((pool, "encoder", url, _problem(report, ())))
    return rows


def _problem(report: Report, tasks: tuple[str, ...]) -> str | None:
    if not report.is_good:
        return report.detail
    able = None if report.tasks is None else {task.value for task in report.tasks}
    lacking = [task for task in tasks if able is not None and task not in able]
    return f"cannot do {', '.join(lacking)}" if lacking else None


def _load(path: Path | None) -> Config:
    chosen = path or Path(os.environ.get("TURNOUT_CONFIG", "turnout.toml"))
    try:
        return load_config(chosen)
    except ConfigError as error:
        _fail(str(error), 2)


def _fail(sentence: str, code: int) -> NoReturn:
    print(f"turnout: {sentence}", file=sys.stderr)
    raise typer.Exit(code)
