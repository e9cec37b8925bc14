"""The simulator tells what the real gateway would do."""

from __future__ import annotations

from bench.scheduling.measures import percentile
from bench.scheduling.validation import validate


def test_the_simulator_is_close_to_the_real_gateway():
    """One trace through real sockets takes about as long as on paper, and never less.

    The close comparison, with longer times, is the bench's; this one has to stand a busy machine.
    """
    found = validate(0.8, requests=30, second=0.03)
    assert (0, 0) == found.unserved
    real, simulated = (percentile(times, 0.5) for times in (found.real, found.simulated))
    assert simulated * 0.98 <= real <= simulated * 1.3
