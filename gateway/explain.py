"""Says what would become of a request, without sending anything: task, evidence, pool, cost."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from gateway.routing.cost import cost_of
from gateway.routing.inspection import Face, inspect
from gateway.routing.places import fitting, is_url
from gateway.routing.routes import RouteTable
from gateway.routing.size import painted_size, result_size
from gateway.transport.intake import parse_json
from gateway.transport.pictures import load_images

if TYPE_CHECKING:
    from gateway.config import Config


async def explain(data: bytes, config: Config) -> dict[str, Any]:
    """Explains a JSON request to `/generate`, also in the chat or Hugging Face shape.

    An image that stands by its URL is not fetched, so a size taken from it stays unknown.
    Raises GatewayError for a request that would be refused.
    """
    routes = RouteTable.build(config)
    payload = parse_json(data)
    is_chat = any(name == "messages" for name, _ in payload.entries)
    face = Face.CHAT if is_chat else Face.GENERATE
    request = inspect(payload, face, config.limits, allow_urls=config.fetch.enabled)
    name, model = routes.model(request.model)
    sources = fitting(request, model)
    here = [s for s in sources if not (isinstance(s.value, str) and is_url(s.value))]
    images, warnings = await load_images(tuple(here), config.limits)
    pool = routes.choices(request.task)[0]
    explained: dict[str, Any] = {
        "task": request.task.value,
        "evidence": request.evidence,
        "model": name,
        "pool": pool.name,
        "workers": [worker.name for worker in pool.workers],
        "n": request.n,
        "size": None,
        "cost": None,
        "ignored": list(request.ignored),
        "warnings": list(warnings),
    }
    if request.size is not None or len(here) == len(sources):
        size = result_size(request.size, images, model)
        cost = cost_of(request, painted_size(size, model))
        explained |= {"size": str(size), "cost": dataclasses.asdict(cost)}
    return explained
