"""A tenth of the work, and always a few, may be sent again; no more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.budget import RetryBudget
from tests.routing.builders import pool, take, ticket, worker


@pytest.mark.parametrize(
    ("first", "resends"), [(0, 10), (1, 10), (100, 10), (110, 11), (119, 12), (120, 12), (500, 50)]
)
def test_a_tenth_may_be_sent_again_and_at_least_ten(first, resends):
    """Within ten seconds a tenth of the first attempts is sent again, and never less than ten."""
    budget = RetryBudget()
    for _ in range(first):
        budget.began(0.0)
    assert [True] * resends + [False] == [budget.spend(1.0) for _ in range(resends + 1)]


def test_what_was_ten_seconds_ago_counts_no_more():
    """First attempts and resends both fall out of the window."""
    budget = RetryBudget()
    for _ in range(200):
        budget.began(0.0)
    assert all(budget.spend(5.0) for _ in range(20))
    assert not budget.spend(9.9)
    assert not budget.spend(10.0)
    assert [True] * 10 + [False] == [budget.spend(15.0) for _ in range(11)]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 3), st.booleans()), max_size=200))
def test_no_window_holds_more_resends_than_its_share(acts):
    """Over any ten seconds no more is sent again than ten, or a tenth of what began in them."""
    budget, now, first, resent = RetryBudget(), 0.0, [], []
    for wait, is_first in acts:
        now += wait
        if is_first:
            budget.began(now)
            first.append(now)
        elif budget.spend(now):
            resent.append(now)
            began = sum(at > now - 10.0 for at in first)
            assert sum(at > now - 10.0 for at in resent) <= max(10, 0.1 * began + 1)


def test_a_pool_counts_first_attempts_only():
    """What is sent again earns no budget for more of it."""
    chosen = pool(worker(capacity=400))
    for number in (1, 2):
        for _ in range(120):
            assert take(chosen, ticket(number=number), 0.0) is not None
    assert [True] * 12 + [False] == [chosen.budget.spend(1.0) for _ in range(13)]
