"""One contract for every worker: see `cases.py` for the table, and how to run it elsewhere."""

import httpx
import pytest

from tests.contract.cases import CASES, checked, perform, send

TEXT, EDIT = (next(case for case in CASES if case.name == name) for name in ("text", "edit"))


def ask(target, path):
    """One question for a status."""
    return httpx.get(target.url + path, timeout=10, trust_env=False)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_table(target, case):
    """Every request of the table is answered as it says, by every worker that serves its task."""
    if case.task not in target.tasks or (case.kind == "refusal" and not target.checks):
        pytest.skip(f"{target.name} does not play this case")
    perform(case, target.url)


@pytest.mark.parametrize("case", [TEXT, EDIT], ids=str)
def test_a_seed_decides_the_picture(target, case):
    """The same seed gives the same picture, another one another."""
    if case.task not in target.tasks:
        pytest.skip(f"{target.name} does not serve {case.task}")
    first, again, other = (
        checked(send(target.url, case, seed=seed), case).tobytes() for seed in (7, 7, 8)
    )
    assert first == again
    assert first != other


def test_a_source_decides_the_picture(target):
    """Another source gives another picture."""
    if "i2i" not in target.tasks:
        pytest.skip(f"{target.name} serves no edits")
    two = next(case for case in CASES if case.name == "edit, two pictures")
    pictures = [checked(send(target.url, case, seed=7), case) for case in (EDIT, two)]
    assert pictures[0].tobytes() != pictures[1].tobytes()


def test_the_status_is_told(target):
    """A worker that serves is healthy, and its task type is one of SGLang's two."""
    assert ask(target, "/health").status_code == 200
    expected = "TI2I" if "i2i" in target.tasks else "T2I"
    if target.name != "elsewhere":  # SGLang says TI2I even where edits cannot work
        assert ask(target, "/model_info").json()["task_type"] == expected


def test_our_workers_tell_more(target):
    """Tasks, kind of encoder, capacity and load are there for a gateway to read."""
    if not target.is_ours:
        pytest.skip(f"{target.name} is not ours")
    info, health = ask(target, "/model_info").json(), ask(target, "/health").json()
    assert info["tasks"] == health["tasks"] == list(target.tasks)
    assert info["encoder"] == ("external" if target.name == "split" else "in-process")
    assert (info["stops_on_disconnect"], info["streams_progress"]) == (True, True)
    assert {"status", "capacity", "in_flight", "waiting", "predicted_seconds"} <= set(health)
    assert "x-turnout-load" in ask(target, "/health").headers


@pytest.mark.parametrize("case", [case for case in CASES if case.kind == "refusal"], ids=str)
def test_our_workers_refuse_in_openais_envelope(target, case):
    """A refusal of ours names its code and the field, and repeats nothing that was sent."""
    if not target.is_ours:
        pytest.skip(f"{target.name} is not ours")
    (error,) = send(target.url, case).json().values()
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] in ("prompt", "size", "response_format", "image")
    assert "a cat" not in error["message"]
