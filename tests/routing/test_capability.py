"""What a worker can do: the configuration's word, its own, and what it shows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.capability import Capability
from gateway.routing.outcome import Cause
from gateway.routing.request import Task
from tests.routing.builders import pool, take, ticket, worker

T2I, I2I = Task.T2I, Task.I2I
TEXT, PICTURES, BOTH = frozenset({T2I}), frozenset({I2I}), frozenset(Task)


def known(configured=None, reported=None, *, is_declared=False, is_blind=False):
    """Makes what is known of a worker."""
    capability = Capability()
    capability.configured = configured
    capability.report(reported, is_declared=is_declared)
    capability.is_blind = is_blind
    return capability


@pytest.mark.parametrize(
    ("configured", "reported", "is_blind", "able"),
    [
        (None, None, False, BOTH),
        (None, TEXT, False, TEXT),
        (None, PICTURES, False, PICTURES),
        (None, frozenset(), False, frozenset()),
        (TEXT, BOTH, False, TEXT),
        (BOTH, TEXT, False, BOTH),
        (PICTURES, None, False, PICTURES),
        (None, None, True, TEXT),
        (None, BOTH, True, TEXT),
        (None, PICTURES, True, frozenset()),
        (BOTH, BOTH, True, TEXT),
    ],
)
def test_the_configuration_wins_over_reports_and_what_it_showed_over_both(
    configured, reported, is_blind, able
):
    """Configuration counts before reports, and no word makes a worker see that showed it cannot."""
    asked = known(configured, reported, is_blind=is_blind)
    assert able == {task for task in Task if asked.can(task)}


@pytest.mark.parametrize(
    ("configured", "reported", "is_declared", "task", "counts", "is_blind"),
    [
        (None, None, False, T2I, True, True),
        (None, BOTH, False, T2I, True, True),
        (None, None, False, T2I, False, False),
        (None, None, False, I2I, True, False),
        (None, BOTH, True, T2I, True, False),
        (None, TEXT, True, T2I, True, True),
        (BOTH, None, False, T2I, True, False),
        (PICTURES, None, False, T2I, True, False),
        (TEXT, BOTH, True, T2I, True, True),
    ],
)
def test_token_counts_of_a_text_give_an_external_encoder_away(
    configured, reported, is_declared, task, counts, is_blind
):
    """Only an external encoder counts a text's tokens; a word of one who knows counts before."""
    asked = known(configured, reported, is_declared=is_declared)
    asked.served(task, counts_tokens=counts)
    assert is_blind is asked.is_blind


def test_one_that_has_edited_a_picture_sees():
    """Neither token counts nor quick failures speak against a worker that has edited."""
    asked = known()
    asked.served(I2I, counts_tokens=False)
    asked.served(T2I, counts_tokens=True)
    assert not asked.is_blind
    assert not any(asked.refused(I2I, 0.1, digest) for digest in "abcd")


REFUSALS = [
    # has made a text, failures as (task, seconds, digest), amounts to a refusal
    (True, [(I2I, 0.1, "a"), (I2I, 0.1, "b")], True),
    (True, [(I2I, 1.0, "a"), (I2I, 1.0, "b")], True),
    (True, [(I2I, 0.1, "a")], False),
    (True, [(I2I, 0.1, "a"), (I2I, 0.1, "a")], False),
    (True, [(I2I, 0.1, "a"), (I2I, 1.1, "b")], False),
    (True, [(I2I, 0.1, "a"), (T2I, 0.1, "b")], False),
    (True, [(I2I, 0.1, "a"), (I2I, 9.0, "b"), (I2I, 0.1, "c")], True),
    (True, [(I2I, 0.1, "a"), (I2I, 0.1, "b"), (I2I, 9.0, "c")], False),
    (False, [(I2I, 0.1, "a"), (I2I, 0.1, "b")], False),
]


@pytest.mark.parametrize(("has_texts", "failures", "is_refusal"), REFUSALS)
def test_quick_failures_of_different_edits_amount_to_a_refusal(has_texts, failures, is_refusal):
    """Two different edits that fail at once, where text succeeds, are a refusal as text-only."""
    asked = known()
    if has_texts:
        asked.served(T2I, counts_tokens=False)
    said = [asked.refused(*failure) for failure in failures]
    assert is_refusal is said[-1]


@pytest.mark.parametrize(
    ("configured", "reported", "is_declared"), [(BOTH, None, False), (None, BOTH, True)]
)
def test_failures_of_one_that_surely_sees_are_failures(configured, reported, is_declared):
    """What somebody who knows says is not overruled by quick failures."""
    asked = known(configured, reported, is_declared=is_declared)
    asked.served(T2I, counts_tokens=False)
    assert not any(asked.refused(I2I, 0.1, digest) for digest in "abcd")


@pytest.mark.parametrize(
    ("before", "after", "is_blind"),
    [
        ((None, False), (None, False), True),
        ((BOTH, False), (BOTH, False), True),
        ((BOTH, True), (BOTH, True), True),
        ((TEXT, False), (BOTH, False), False),
        ((BOTH, False), (BOTH, True), False),
        ((BOTH, False), (None, False), True),  # "not said" is no change
    ],
)
def test_a_changed_report_voids_what_was_shown(before, after, is_blind):
    """A worker that goes on saying the same stays blind; one that says something else is new."""
    asked = known()
    asked.report(before[0], is_declared=before[1])
    asked.is_blind = True
    asked.report(after[0], is_declared=after[1])
    assert is_blind is asked.is_blind


def test_what_is_forgotten_has_to_be_shown_anew():
    """Where another server may stand, neither its texts nor its failures count any more."""
    asked = known()
    asked.served(T2I, counts_tokens=False)
    asked.refused(I2I, 0.1, "a")
    asked.forget()
    assert not asked.refused(I2I, 0.1, "b")
    asked.served(T2I, counts_tokens=False)
    assert [False, True] == [asked.refused(I2I, 0.1, digest) for digest in "bc"]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["text", "counted", "edit", "a", "b", "slow", "same report"])))
def test_a_worker_recognised_as_text_only_never_gets_a_picture_again(acts):
    """Once blind, nothing that a worker shows or repeats makes it fit for a picture."""
    asked = known(reported=BOTH, is_blind=True)
    for act in acts:
        if act in ("text", "counted"):
            asked.served(T2I, counts_tokens=act == "counted")
        elif act == "edit":
            asked.served(I2I, counts_tokens=False)
        elif act == "same report":
            asked.report(BOTH)
        else:
            asked.refused(I2I, 9.0 if act == "slow" else 0.1, act)
        assert (True, False) == (asked.can(T2I), asked.can(I2I))


def test_a_pool_learns_from_answers_what_its_workers_can_do():
    """The first text whose answer counts tokens takes its worker from the pictures."""
    blind, seeing = worker("w-0"), worker("w-1")
    chosen = pool(blind, seeing)
    lease = take(chosen, ticket(T2I))
    lease.attempt.counts_tokens = True
    lease.end(Cause.ANSWER, 5.0)
    assert blind is lease.worker
    assert [seeing] == chosen.free(ticket(I2I), 5.0)
    assert [blind, seeing] == chosen.free(ticket(T2I), 5.0)
