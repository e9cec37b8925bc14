"""The two tables, pair by pair: what a server's health does, and what an attempt's end means."""

from __future__ import annotations

import pytest

from gateway.routing.health import TRANSITIONS, Health, HealthTrack, Sign
from gateway.routing.outcome import MEANINGS, Attempt, Cause, Outcome

D, U, Q, S = Health.DOWN, Health.UP, Health.DOUBTFUL, Health.SILENT

EXPECTED = [
    # state, good probe, bad probe, silent at work, answered, lost attempt
    (D, U, D, D, D, D),
    (U, U, Q, S, U, D),
    (Q, U, D, S, Q, D),
    (S, U, D, S, U, D),
]
SIGNS = (
    Sign.GOOD_PROBE,
    Sign.BAD_PROBE,
    Sign.SILENT_AT_WORK,
    Sign.ANSWERED,
    Sign.LOST_ATTEMPT,
)
PAIRS = [
    (state, sign, after)
    for state, *afters in EXPECTED
    for sign, after in zip(SIGNS, afters, strict=True)
]


def test_the_table_of_health_is_complete():
    """Every state knows what to do with every sign."""
    assert {(state, sign) for state in Health for sign in Sign} == set(TRANSITIONS)


def test_a_server_begins_down():
    """Nobody is sent to a server that has not answered once."""
    track = HealthTrack()
    assert (D, False, False, False) == (
        track.state,
        track.is_up,
        track.is_silent,
        track.was_up,
    )


@pytest.mark.parametrize(("state", "sign", "after"), PAIRS)
def test_health_moves_as_its_table_says(state, sign, after):
    """Each sign moves each state to one state, and tells whether work may now be given or not."""
    track = HealthTrack()
    track.state = state
    has_changed = track.see(sign)
    assert after is track.state
    assert ((state is D) is not (after is D)) is has_changed
    assert (after is not D, after is S) == (track.is_up, track.is_silent)


@pytest.mark.parametrize("absence", [1, 2, 1000])
def test_a_server_comes_back_after_any_absence(absence):
    """A server that was away for long is up again after one good probe."""
    track = HealthTrack()
    for _ in range(absence):
        track.see(Sign.BAD_PROBE)
    assert track.see(Sign.GOOD_PROBE)
    assert track.is_up


def test_one_bad_probe_is_chance_and_two_are_not():
    """A server that is up survives one bad probe, and not two in a row."""
    track = HealthTrack()
    seen = (Sign.GOOD_PROBE, Sign.BAD_PROBE, Sign.GOOD_PROBE, Sign.BAD_PROBE, Sign.BAD_PROBE)
    up = []
    for sign in seen:
        track.see(sign)
        up.append(track.is_up)
    assert [True, True, True, True, False] == up


def test_silence_at_work_never_takes_a_server_out():
    """A silent server that holds our work is busy, not dead."""
    track = HealthTrack()
    track.see(Sign.GOOD_PROBE)
    assert not any(track.see(Sign.SILENT_AT_WORK) for _ in range(100))
    assert (True, True) == (track.is_up, track.is_silent)


@pytest.mark.parametrize("sign", [Sign.GOOD_PROBE, Sign.ANSWERED])
def test_a_silent_server_that_speaks_is_well(sign):
    """A probe that is answered, or a picture that is finished, ends a silence."""
    track = HealthTrack()
    for each in (Sign.GOOD_PROBE, Sign.SILENT_AT_WORK, sign):
        track.see(each)
    assert (U, False) == (track.state, track.is_silent)


def test_it_is_remembered_who_was_ever_up():
    """A server that goes down is told from one that has never answered."""
    track = HealthTrack()
    track.see(Sign.BAD_PROBE)
    assert not track.was_up
    track.see(Sign.GOOD_PROBE)
    track.see(Sign.LOST_ATTEMPT)
    assert (False, True) == (track.is_up, track.was_up)


A, R, B, T, L = (
    Outcome.ANSWERED,
    Outcome.REFUSED,
    Outcome.BROKEN,
    Outcome.TIMED_OUT,
    Outcome.ABANDONED,
)
CAUSES = [
    # cause, outcome, may be sent again, the worker is ill, counts as a failure, may be the request
    (Cause.ANSWER, A, False, False, False, False),
    (Cause.UNREACHABLE, R, True, True, False, False),
    (Cause.BUSY, R, True, False, False, False),
    (Cause.TEXT_ONLY, R, True, False, False, False),
    (Cause.REJECTED, R, False, False, False, False),
    (Cause.LOST, B, False, True, True, True),
    (Cause.BAD_STATUS, B, False, False, True, False),
    (Cause.OUT_OF_MEMORY, B, False, False, True, False),
    (Cause.RUBBISH, B, False, False, True, False),
    (Cause.DEADLINE, T, False, False, True, False),
    (Cause.HUNG, T, False, True, True, True),
    (Cause.CLIENT_LEFT, L, False, False, False, False),
]


def test_the_table_of_causes_is_complete():
    """Every cause has a meaning, and the test knows them all."""
    assert set(Cause) == set(MEANINGS) == {cause for cause, *_ in CAUSES}


@pytest.mark.parametrize(("cause", "meaning"), [(cause, rest) for cause, *rest in CAUSES])
def test_a_cause_means_what_its_table_says(cause, meaning):
    """Each cause has one outcome, and one answer to each of four questions."""
    assert tuple(meaning) == MEANINGS[cause]


@pytest.mark.parametrize("cause", list(Cause))
def test_only_what_no_worker_began_is_sent_again(cause):
    """A request is sent again only after a refusal, which comes before any work (R7)."""
    assert MEANINGS[cause].outcome is Outcome.REFUSED or not MEANINGS[cause].may_resend


def test_an_attempt_counts_its_seconds_when_it_has_ended():
    """An attempt has lasted zero seconds while it runs, and its true time afterwards."""
    attempt = Attempt(1, "i2i-0", "i2i", started=10.0)
    assert 0.0 == attempt.seconds
    attempt.ended = 12.5
    assert 2.5 == attempt.seconds
