"""The log never holds what a caller sent, not even by way of an error's text."""

from __future__ import annotations

import json

import pytest

from gateway.config import ServerConfig
from gateway.telemetry import Telemetry


def choke(on):
    """Fails as libraries do, with what they choked on in the text, twice over."""
    try:
        raise ValueError(f"cannot read {on!r}")
    except ValueError as error:
        raise TypeError(f"cannot send {on!r}") from error


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_fault_is_logged_by_kind_and_place_alone(capsys, form):
    """A fault names its kinds, their places and the request, and not its text."""
    telemetry = Telemetry(ServerConfig(log_format=form))
    try:
        choke(b"canary" * 1000)
    except TypeError as error:
        telemetry.fault("request", error, "r1")
    line = capsys.readouterr().out
    assert "canary" not in line
    for word in ("TypeError", "ValueError", "test_telemetry.py", "choke", "r1"):
        assert word in line
    if form == "json":
        assert ["TypeError", "ValueError"] == [
            entry for entry in json.loads(line)["trace"] if entry.endswith("Error")
        ]
