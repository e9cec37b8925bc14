"""Describes what the gateway tells about itself: models, readiness, pools, workers, lines."""

from __future__ import annotations

from gateway.api.schemas import Schema, closed, count, ref, seconds
from gateway.routing.breaker import Circuit
from gateway.routing.health import Health
from gateway.routing.request import Task


def state_schemas() -> dict[str, Schema]:
    """Lists the schemas by name."""
    pool = {
        "ready": {"type": "boolean"},
        "workers": count(),
        "available": count(),
        "missing": {"type": ["string", "null"]},
    }
    worker: dict[str, Schema] = {
        "name": {"type": "string"},
        "state": {"enum": [*(each.value for each in Health), "resting", "on_trial", "drained"]},
        "health": {"enum": [each.value for each in Health]},
        "breaker": {"enum": [each.value for each in Circuit]},
        "reason": {"type": ["string", "null"]},
        "capacity": count(),
        "in_flight": count(),
        "pace": seconds(),
        "tasks": {"anyOf": [_tasks(), {"type": "null"}]},
        "text_only": {"type": "boolean"},
    }
    ticket: dict[str, Schema] = {
        "id": {"type": "string"},
        "task": {"enum": [task.value for task in Task]},
        "position": count(),
        "waited_seconds": seconds(),
        "expected_wait_seconds": seconds(),
        "predicted_seconds": seconds(),
    }
    state = {
        "missing": {"type": ["string", "null"]},
        "tasks": _tasks(),
        "waiting": count(),
        "queue_limit": count(),
        "expected_wait_seconds": seconds(),
        "circuit": {"enum": [each.value for each in Circuit]},
        "encoder": {"type": ["string", "null"]},
        "workers": {"type": "array", "items": ref("WorkerState")},
        "line": {"type": "array", "items": closed(**ticket)},
    }
    return {
        "Alive": closed(status={"const": "alive"}),
        "Readiness": closed(
            ready={"type": "boolean"},
            pools={"type": "object", "additionalProperties": closed(**pool)},
        ),
        "Model": closed(
            id=ref("ModelName"),
            object={"const": "model"},
            created={"type": "integer"},
            owned_by={"type": "string"},
        ),
        "ModelList": closed(
            object={"const": "list"}, data={"type": "array", "items": ref("Model")}
        ),
        "WorkerState": closed(**worker),
        "Progress": closed(
            "position",
            "expected_wait_seconds",
            stage={"type": "string"},
            done=count(),
            total=count(),
            picture=count(),
            position={"type": "integer", "minimum": 1},
            expected_wait_seconds=seconds(),
        ),
        "HeadersEvent": {"type": "object", "additionalProperties": {"type": "string"}},
        "ErrorEvent": closed(
            status={"type": "integer", "minimum": 400, "maximum": 599},
            headers={"type": "object", "additionalProperties": {"type": "string"}},
            error={},
        ),
        "NewWorker": closed(
            "capacity",
            "name",
            "stops_on_disconnect",
            "tasks",
            url={"type": "string", "pattern": "^https?://[a-z0-9.-]+(:[1-9][0-9]{0,4})?$"},
            capacity={"type": "integer", "minimum": 1},
            name={"type": "string", "pattern": "^[A-Za-z0-9._-]*$"},
            stops_on_disconnect={"type": "boolean"},
            tasks=_tasks(),
        ),
        "Reloaded": closed(needs_restart={"type": "array", "items": {"type": "string"}}),
        "Pools": {"type": "object", "additionalProperties": closed(**state)},
    }


def _tasks() -> Schema:
    return {"type": "array", "items": {"enum": [task.value for task in Task]}}
