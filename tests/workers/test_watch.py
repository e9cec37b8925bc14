"""What is told between an engine and whoever waits for it."""

import pytest

from workers.errors import CallerLeft
from workers.watch import Progress, Watch


def test_of_tokens_only_the_first_and_the_last_are_told_at_once():
    """Tokens come too fast to tell each; the first and the last of a count never get lost."""
    heard = []
    watch = Watch(heard.append)
    for done in range(1001):
        watch.at("encoding", done, 1000)
    told = [progress.done for progress in heard]
    assert (told[0], told[-1]) == (0, 1000)
    assert len(told) < 100


def test_every_step_is_told_once():
    """A denoising step is always told, and nothing is told twice."""
    heard = []
    watch = Watch(heard.append)
    for done in (0, 1, 1, 2, 2):
        watch.at("denoising", done, 2)
    assert heard == [Progress("denoising", done, 2) for done in range(3)]


def test_nothing_is_told_to_who_has_left():
    """The next look after a caller left ends the work, even if nobody listened."""
    heard = []
    for watch in (Watch(), Watch(heard.append)):
        watch.leave()
        with pytest.raises(CallerLeft):
            watch.at("denoising", 0, 2)
    assert heard == []


@pytest.mark.parametrize("is_first", [True, False])
def test_leaving_calls_back(is_first):
    """Whoever wants to know is called, whether it asked before or after the caller left."""
    calls = []
    watch = Watch()
    steps = [watch.leave, lambda: watch.when_left(lambda: calls.append(1))]
    for step in steps if is_first else steps[::-1]:
        step()
    assert calls == [1]
