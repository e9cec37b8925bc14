"""Answers leave at once: our listeners' connections do not wait until a packet is full."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.server import bind
from workers.serving import listen

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("listening", [bind, listen], ids=["gateway", "workers"])
async def test_small_packets_are_not_delayed(listening):
    """A connection that is accepted has the delay of small packets switched off."""
    sock = listening("127.0.0.1", 0)
    accepted = asyncio.get_running_loop().create_future()

    async def on_connection(reader, writer):
        raw = writer.get_extra_info("socket")
        accepted.set_result(raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    server = await asyncio.start_server(on_connection, sock=sock)
    _, writer = await asyncio.open_connection(*sock.getsockname()[:2])
    assert await accepted
    writer.close()
    server.close()
