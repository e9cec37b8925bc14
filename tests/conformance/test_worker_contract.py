"""The contract that our own workers keep, on stock SGLang and on our worker in front of it."""

from __future__ import annotations

import pytest

from tests.contract.cases import CASES, perform

PLAYED = [
    (target, case)
    for target in ("external", "in_process", "split")
    for case in CASES
    # With an external encoder SGLang refuses an edit without a picture, and fails every other one.
    if (target, case.task, case.kind) != ("external", "i2i", "picture")
]


@pytest.mark.parametrize(("target", "case"), PLAYED, ids=str)
def test_the_contract(fleet, split, target, case):
    """Every request of the contract is answered as it says, by every worker that can do it."""
    worker = split if target == "split" else getattr(fleet, target)
    perform(case, worker.url)
