"""Callers are told apart by what they show, and nothing of a credential is kept but its hash."""

from __future__ import annotations

import pytest

from gateway.routing.caller import Caller, identify


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ((None, "10.0.0.1"), (None, "10.0.0.1"), True),
        ((None, "10.0.0.1"), (None, "10.0.0.2"), False),
        (("Bearer a", "10.0.0.1"), ("Bearer a", "10.0.0.2"), True),
        (("Bearer a", "10.0.0.1"), ("Bearer b", "10.0.0.1"), False),
        (("10.0.0.1", "10.0.0.1"), (None, "10.0.0.1"), False),
    ],
)
def test_whoever_shares_a_credential_or_an_address_is_one_caller(one, other, is_same):
    """A credential names a caller wherever it comes from; without one the address does."""
    assert is_same is (identify(*one) == identify(*other))


def test_a_credential_is_not_kept():
    """A caller's name holds a hash of the credential, never the credential."""
    name = identify("Bearer sk-very-secret", "10.0.0.1").name
    assert "secret" not in name
    assert name.startswith("key ")
    assert len("key ") + 16 == len(name)


def test_everybody_begins_in_one_class():
    """Nobody has a priority that was not given to him."""
    assert (0, 0) == (Caller().priority, identify("a", "b").priority)
    assert Caller("a", 1) != Caller("a", 0)
