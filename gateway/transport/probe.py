"""Asks one server how it is and what it can do, over HTTP."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any, Final

import httpx
import msgspec

from gateway.routing.request import Task

MAX_BYTES: Final = 65_536


class Load(msgspec.Struct, frozen=True):
    """Is what one of our workers says it has in hand; times in seconds."""

    in_flight: int
    waiting: int
    capacity: int = 1
    predicted_seconds: float | None = None


def load_of(health: bytes) -> Load | None:
    """Reads the load from the body of `/health`; None where it tells none."""
    try:
        return msgspec.json.decode(health, type=Load)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class Report:
    """Is what one probe saw; `tasks` and `max_side` are None where the server does not say."""

    is_good: bool
    detail: str
    tasks: frozenset[Task] | None = None
    is_declared: bool = False
    """Whether it names its tasks one by one, as our workers do."""
    is_external: bool | None = None
    """Whether its own arguments name an external encoder."""
    max_side: int | None = None
    stops_on_disconnect: bool = False
    streams_progress: bool = False
    load: Load | None = None
    is_silent: bool = False


def probe_client() -> httpx.AsyncClient:
    """Builds the client for probes: no proxies, no redirects, no kept connections."""
    limits = httpx.Limits(max_keepalive_connections=0)
    # No timeout of its own: one clock around an answer counts, however its bytes drip in.
    return httpx.AsyncClient(trust_env=False, limits=limits, timeout=None)


async def probe(
    client: httpx.AsyncClient, url: str, timeout_seconds: float, *, with_tasks: bool
) -> Report:
    """Asks one server for its health, and for what it can do where its tasks matter."""
    try:
        async with asyncio.timeout(timeout_seconds):
            # A server that is only busy is still connected to, by its kernel.
            status, body = await _get(client, f"{url}/health", 0.8 * timeout_seconds)
    except TimeoutError:
        return Report(False, "does not answer in time", is_silent=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        refused = isinstance(error, httpx.ConnectError)
        detail = "refuses the connection" if refused else f"fails: {type(error).__name__}"
        return Report(False, detail)
    if status != 200:
        return Report(False, f"/health answers {status}")
    report = Report(True, "healthy", load=load_of(body))
    if not with_tasks:
        return report
    try:
        async with asyncio.timeout(timeout_seconds):
            return replace(await _capability(client, url), load=report.load)
    except (TimeoutError, httpx.HTTPError):
        return report  # it is well, and has not said what it can do


async def _capability(client: httpx.AsyncClient, url: str) -> Report:
    """Reads what a healthy worker says of itself, from the page that says most to the least."""
    said = await _object(client, f"{url}/model_info")
    if isinstance(said.get("tasks"), list):
        return _report(said, frozenset(task for task in Task if task.value in said["tasks"]))
    tasks = _kind(said)
    if tasks is None:
        listed = (await _object(client, f"{url}/v1/models")).get("data")
        tasks = _kind(listed[0]) if isinstance(listed, list) and listed else None
    info = await _object(client, f"{url}/server_info")
    is_external = _has_encoder(info) if info else None
    return replace(_report(said, tasks, is_declared=False), is_external=is_external)


def _report(
    said: dict[str, Any], tasks: frozenset[Task] | None, *, is_declared: bool = True
) -> Report:
    limits = said.get("image_limits")
    side = limits.get("max_side") if isinstance(limits, dict) else None
    return Report(
        True,
        "healthy",
        tasks,
        is_declared,
        max_side=side if isinstance(side, int) else None,
        stops_on_disconnect=said.get("stops_on_disconnect") is True,
        streams_progress=said.get("streams_progress") is True,
    )


async def _get(
    client: httpx.AsyncClient, url: str, connect_seconds: float | None = None
) -> tuple[int, bytes]:
    """Returns status and body, the body cut at a size that no honest answer reaches."""
    timeout = httpx.Timeout(None, connect=connect_seconds)
    async with client.stream("GET", url, timeout=timeout) as response:
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BYTES:
                break
        return response.status_code, body[:MAX_BYTES]


async def _object(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """Reads a JSON object; anything else says nothing."""
    status, body = await _get(client, url)
    try:
        said = json.loads(body) if status == 200 else {}
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _kind(said: object) -> frozenset[Task] | None:
    """Reads SGLang's `task_type`: T2I, I2I or TI2I."""
    kinds = {"T2I": {Task.T2I}, "I2I": {Task.I2I}, "TI2I": {Task.T2I, Task.I2I}}
    kind = said.get("task_type") if isinstance(said, dict) else None
    found = kinds.get(str(kind).upper())
    return None if found is None else frozenset(found)


def _has_encoder(said: dict[str, Any]) -> bool:
    """Tells whether a server's own arguments name an external encoder."""
    nested = said.get("server_args")
    places = (said, nested if isinstance(nested, dict) else {})
    return any(bool(place.get("srt_encoder_url")) for place in places)
