"""What endpoints are given: typed aliases, so that their signatures stay short."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from gateway.record import RequestRecord
from gateway.runtime import Runtime


def _runtime(request: Request) -> Runtime:
    runtime: Runtime = request.app.state.runtime
    return runtime


def _record(request: Request) -> RequestRecord:
    record: RequestRecord = request.state.record
    return record


RuntimeDep = Annotated[Runtime, Depends(_runtime)]
RecordDep = Annotated[RequestRecord, Depends(_record)]
