"""One envelope for every error, with the headers that tell a client what to do next."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import errors
from gateway.errors import LEAVES, GatewayError, render

CALLER, SERVER, SERVICE = "invalid_request_error", "server_error", "service_unavailable_error"

PROMISED = MappingProxyType(
    {
        # code: (status, type, x-should-retry)
        "invalid_json": (400, CALLER, None),
        "invalid_multipart": (400, CALLER, None),
        "missing_prompt": (400, CALLER, None),
        "missing_image": (400, CALLER, None),
        "invalid_image": (400, CALLER, None),
        "unsupported_image_format": (400, CALLER, None),
        "image_too_large": (400, CALLER, None),
        "too_many_images": (400, CALLER, None),
        "image_url_forbidden": (400, CALLER, None),
        "invalid_size": (400, CALLER, None),
        "invalid_value": (400, CALLER, None),
        "unsupported_parameter": (400, CALLER, None),
        "model_required": (400, CALLER, None),
        "not_found": (404, CALLER, None),
        "model_not_found": (404, CALLER, None),
        "unsupported_endpoint": (404, CALLER, None),
        "method_not_allowed": (405, CALLER, None),
        "image_url_fetch_failed": (400, CALLER, None),
        "request_timeout": (408, CALLER, None),
        "request_too_large": (413, CALLER, None),
        "unsupported_media_type": (415, CALLER, None),
        "queue_full": (429, "rate_limit_error", None),
        "internal_error": (500, SERVER, "false"),
        "worker_error": (502, SERVER, "false"),
        "no_worker_available": (503, SERVICE, None),
        "worker_out_of_memory": (503, SERVICE, None),
        "draining": (503, SERVICE, None),
        "deadline_exceeded": (504, SERVER, "false"),
    }
)

EVERY = [(leaf, code) for leaf in LEAVES for code in leaf.codes]


def test_every_promised_code_has_one_class():
    """The codes that clients rely on are the codes of the tree, each in one class."""
    assert sorted(PROMISED) == sorted(code for _, code in EVERY)


def test_every_class_that_can_be_raised_is_a_leaf():
    """Every class of the tree that has codes of its own is in the list of leaves."""
    own = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, GatewayError) and "codes" in vars(kind)
    ]
    assert set(own) == set(LEAVES)


@pytest.mark.parametrize(("leaf", "code"), EVERY)
def test_every_error_is_rendered_as_promised(leaf, code):
    """Each code has its status, its type and its word about trying again (R5, R6)."""
    error = leaf("what to change", code=code, param="image")
    rendered = render(error)
    status, kind, should_retry = PROMISED[code]
    assert status == rendered.status
    assert should_retry == rendered.headers.get("x-should-retry")
    assert {
        "error": {"message": "what to change", "type": kind, "param": "image", "code": code}
    } == json.loads(rendered.body)
    assert "application/json" == rendered.headers["content-type"]


@pytest.mark.parametrize("leaf", LEAVES)
def test_all_four_keys_are_there_even_when_empty(leaf):
    """An error without a field still has the key `param`, and the class's first code."""
    envelope = json.loads(render(leaf("x")).body)["error"]
    assert {"message", "type", "param", "code"} == set(envelope)
    assert (None, leaf.codes[0]) == (envelope["param"], envelope["code"])


@pytest.mark.parametrize("leaf", LEAVES)
def test_only_errors_after_which_work_may_have_run_forbid_a_repeat(leaf):
    """`x-should-retry: false` stands exactly on 500, 502 and 504 (R6)."""
    forbids = render(leaf("x")).headers.get("x-should-retry")
    assert ("false" if leaf.status in (500, 502, 504) else None) == forbids


@pytest.mark.parametrize(
    ("seconds", "header"),
    [
        (None, None),
        (-3, "1"),
        (0, "1"),
        (0.2, "1"),
        (1, "1"),
        (4.6, "5"),
        (120, "120"),
        (121, "120"),
        (10.0**9, "120"),
    ],
)
def test_retry_after_is_whole_seconds_within_bounds(seconds, header):
    """Retry-After is a whole number from 1 to 120, and absent where none was given (R6)."""
    headers = render(errors.QueueFull("x", retry_after=seconds)).headers
    assert header == headers.get("retry-after")


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_retry_after_is_always_one_that_clients_honour(seconds):
    """Whatever time was estimated, clients get a Retry-After that they honour (R6)."""
    header = render(errors.NoWorker("x", retry_after=seconds)).headers["retry-after"]
    assert 1 <= int(header) <= 120


def test_allow_is_told_with_a_wrong_method():
    """A 405 names the methods that the path takes; other errors have no such header."""
    assert "GET, POST" == render(errors.MethodNotAllowed("x", allow="GET, POST")).headers["allow"]
    assert "allow" not in render(errors.NotFound("x")).headers


@pytest.mark.parametrize("message", ["größer", "天狗 🚀", 'a "quote"\n', "\ud800 alone", "\0"])
def test_any_message_is_valid_json_in_utf8(message):
    """A message with any characters is rendered as valid JSON in UTF-8."""
    envelope = json.loads(render(GatewayError(message)).body.decode())["error"]
    assert message.encode(errors="replace").decode() == envelope["message"]


def test_a_class_knows_its_own_codes_only():
    """A code that the class does not have is a mistake of ours, found at once."""
    with pytest.raises(ValueError, match="QueueFull has no code worker_error"):
        errors.QueueFull("x", code="worker_error")


def test_an_error_reads_as_its_message():
    """An error's text is its message, for the log."""
    assert "no slot" == str(errors.QueueFull("no slot"))


def test_the_tree_has_the_branches_that_decide_about_repeats():
    """The caller's, ours and the worker's are different branches of one tree."""
    branches = (errors.CallerError, errors.CapacityError, errors.WorkerError)
    for leaf in set(LEAVES) - {GatewayError}:
        assert 1 == sum(issubclass(leaf, branch) for branch in branches)
