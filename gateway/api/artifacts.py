"""GET /artifacts/{name}: pictures by signed links that expire, and the making of such links."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response

from gateway.api.depends import RuntimeDep
from gateway.api.openapi import NOTHING, path_parameter, pictures, query_parameter, reading_route
from gateway.errors import InvalidRequest, NotFound
from gateway.routing.links import read_expiry
from gateway.transport.artifacts import Artifact

if TYPE_CHECKING:
    from gateway.transport.artifacts import ArtifactStore

router = APIRouter()
_HOST: Final = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_.])?|\[[0-9A-Fa-f:.]{2,45}\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


# The upper one is for the document alone, where two methods would share one id: the lower one,
# which stands first in the router, answers both.
@router.get(
    "/artifacts/{name}",
    openapi_extra=reading_route(
        "pictures",
        {"200": pictures()},
        path_parameter("name", {"type": "string"}, "The picture's name, out of a link of ours."),
        query_parameter("expires", "Unix seconds, out of the link."),
        query_parameter("signature", "Out of the link."),
        codes=NOTHING,
        sent=("cache-control", "x-content-type-options"),
    ),
)
@router.api_route("/artifacts/{name}", methods=["GET", "HEAD"], include_in_schema=False)
async def artifact(
    name: str, runtime: RuntimeDep, expires: str = "", signature: str = ""
) -> Response:
    """Sends a kept picture to whoever has its link, with or without a key of his own."""
    store = runtime.artifacts
    asked = Artifact(name, read_expiry(expires))
    picture = await store.get(name) if store.admits(asked, signature) else None
    if picture is None:
        # One text for all: nobody learns from it which pictures there are.
        raise NotFound(
            "there is no picture at this link; links expire, and a full store drops the oldest "
            "picture first; ask for the picture again"
        )
    seconds = max(0, int(asked.expires - store.clock()))
    headers = {
        "cache-control": f"private, max-age={seconds}, immutable",
        "x-content-type-options": "nosniff",
    }
    return Response(picture, media_type=f"image/{name.partition('.')[2]}", headers=headers)


def url_for(base: str, store: ArtifactStore, artifact: Artifact) -> str:
    """Builds the absolute, signed URL of a kept picture."""
    query = f"expires={artifact.expires}&signature={store.signature(artifact)}"
    return f"{base}/artifacts/{artifact.name}?{query}"


def base_url(request: Request, public_url: str | None) -> str:
    """Returns the base of the URLs we hand out: as configured, else as this request came.

    Raises InvalidRequest for a Host header that is no host and port. What proxies add about the
    original request is not looked at, since anybody can send it.
    """
    if public_url is not None:
        return public_url.rstrip("/")
    hosts = request.headers.getlist("host")
    match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if match is None or not 0 < int(match["port"] or 80) < 65536:
        raise InvalidRequest(
            "the header 'Host' has to be one HOST or HOST:PORT, since the answer's URL begins "
            "with it; or ask for 'response_format': 'b64_json'",
            param="Host",
        )
    return f"{request.scope['scheme']}://{hosts[0]}"
