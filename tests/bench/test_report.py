"""What the bench writes: rows for machines, a page for people, and a judgement."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bench.scheduling import scenarios
from bench.scheduling.claims import claims
from bench.scheduling.document import document
from bench.scheduling.experiment import experiment
from bench.scheduling.interval import Interval
from bench.scheduling.rows import rows
from bench.scheduling.validation import Agreement


@pytest.fixture(scope="module")
def tiny():
    """Runs every scenario on traces that tell nothing."""
    short = [replace(s, traffic=replace(s.traffic, requests=25)) for s in scenarios.every()]
    return experiment(short, seeds=2)


AGREEMENT = Agreement(0.7, 0.01, (1.0, 2.0), (1.0, 1.9), (0, 0))


def test_the_page_has_every_table(tiny):
    """The page is written from any whole run, with nothing left to fill in."""
    page = document(tiny, claims(tiny), [AGREEMENT])
    assert not {"{", "}"} & set(page)
    assert all(f" {each.scenario.name} " in page for each in tiny)


def test_a_row_says_what_it_is_compared_with(tiny):
    """Each row has the six members, and a ratio only where there is something to compare with."""
    found = rows(tiny, [AGREEMENT])
    members = ["scenario", "metric", "value", "unit", "versus", "ratio"]
    assert all(members == list(row) for row in found)
    assert all(row["ratio"] is None for row in found if row["versus"] is None)
    assert {each.scenario.name for each in tiny} | {"trial at load 0.7"} == {
        row["scenario"] for row in found
    }


def test_the_main_promises_are_all_judged(tiny):
    """A whole run judges five promises, those of the loads 0.9 and 1.5 among them."""
    assert 5 == len(claims(tiny))


def test_an_interval_is_students():
    """The interval of ten values is 2.262 standard errors to each side."""
    found = Interval.of([float(n) for n in range(10)])
    deviation = math.sqrt(sum((n - 4.5) ** 2 for n in range(10)) / 9)
    assert (4.5, pytest.approx(2.262 * deviation / math.sqrt(10))) == (found.mean, found.half)
    assert found.is_above_zero
    assert not Interval.of([1.0]).is_above_zero


def test_an_agreement_is_judged_by_its_percentiles():
    """Two runs agree where p50 is within 5 % and p99 within 10 %."""
    assert AGREEMENT.holds
    assert not replace(AGREEMENT, simulated=(1.1, 1.9)).holds
    assert not replace(AGREEMENT, simulated=(1.0, 1.7)).holds
