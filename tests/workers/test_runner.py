"""The engine thread and its line."""

import threading

import pytest

from tests.workers.support import wait_until
from workers.errors import (
    Busy,
    CallerLeft,
    EngineBroken,
    NotReady,
    PipelineFailed,
    WorkLost,
)
from workers.runner import Runner


@pytest.fixture
def started():
    """Starts runners and stops them at the end."""
    runners = []

    def start(run, **options):
        runner = Runner(lambda: run, **options)
        runner.start()
        runners.append(runner)
        wait_until(lambda: runner.state != "loading")
        return runner

    yield start
    for runner in runners:
        runner.stop()
        assert runner.join(5)


class Gate:
    """A job runner that waits until it is let through, and notes the order."""

    def __init__(self):
        self.open = threading.Event()
        self.order = []

    def __call__(self, jobs, watches):
        self.order += jobs
        while not self.open.wait(0.005):
            if all(watch.has_left for watch in watches):
                raise CallerLeft
        return jobs


def test_jobs_run_one_at_a_time_in_order(started):
    """Jobs run in the order they came, one at a time, and each gets its own result."""
    gate = Gate()
    runner = started(gate)
    tickets = [runner.submit(number) for number in range(5)]
    wait_until(lambda: runner.in_flight == 1)
    assert (gate.order, runner.waiting) == ([0], 4)
    gate.open.set()
    assert [ticket.future.result(5) for ticket in tickets] == gate.order == [0, 1, 2, 3, 4]


def test_the_line_is_bounded(started):
    """A job beyond the waiting places is refused, and nothing of it runs."""
    gate = Gate()
    runner = started(gate, waiting_limit=2)
    runner.submit("first")
    wait_until(lambda: runner.in_flight == 1)
    runner.submit("second")
    third = runner.submit("third")
    with pytest.raises(Busy):
        runner.submit("fourth")
    third.leave()
    runner.submit("fifth")
    gate.open.set()
    wait_until(lambda: len(gate.order) == 3)
    assert gate.order == ["first", "second", "fifth"]


def test_a_caller_who_leaves_stops_the_running_job(started):
    """The running job learns that its caller left, and the next one begins."""
    gate = Gate()
    runner = started(gate)
    first, second = runner.submit("first"), runner.submit("second")
    wait_until(lambda: gate.order == ["first"])
    first.leave()
    wait_until(lambda: gate.order == ["first", "second"])
    gate.open.set()
    assert second.future.result(5) == "second"


def test_jobs_that_may_join_run_together(started):
    """A run takes along what may join it, in order, and leaves the others where they stand."""
    gate = Gate()
    runner = started(gate, may_join=lambda jobs, job: job[0] == jobs[0][0] and len(jobs) < 3)
    tickets = [runner.submit(job) for job in ("x", "a1", "b1", "a2", "a3", "a4")]
    wait_until(lambda: runner.in_flight == 1)
    tickets[3].leave()
    gate.open.set()
    assert [tickets[at].future.result(5) for at in (0, 1, 2, 4, 5)] == ["x", "a1", "b1", "a3", "a4"]
    assert gate.order == ["x", "a1", "a3", "a4", "b1"]


def test_a_run_goes_on_while_one_of_its_callers_is_there(started):
    """Who leaves a shared run is answered at once, and does not stop it for the others."""
    gate = Gate()
    runner = started(gate, may_join=lambda jobs, job: jobs[0] != "first")
    tickets = [runner.submit(job) for job in ("first", "second", "third")]
    tickets[0].leave()
    wait_until(lambda: runner.in_flight == 2)
    tickets[1].leave()
    with pytest.raises(CallerLeft):
        tickets[1].future.result(5)
    gate.open.set()
    assert tickets[2].future.result(5) == "third"


def test_a_failed_job_does_not_end_the_thread(started):
    """One job's exception is that job's failure only."""

    def run(jobs, _):
        return [1 / job for job in jobs]

    runner = started(run)
    with pytest.raises(PipelineFailed):
        runner.submit(0).future.result(5)
    assert runner.submit(2).future.result(5) == 0.5


def test_a_broken_engine_ends_the_thread(started):
    """After EngineBroken the running job is lost, the waiting ones had not begun."""
    gate = threading.Event()

    def run(jobs, _):
        gate.wait(5)
        raise EngineBroken("lost")

    runner = started(run)
    running = runner.submit(1)
    wait_until(lambda: runner.in_flight == 1)
    waiting = runner.submit(2)
    gate.set()
    with pytest.raises(WorkLost):
        running.future.result(5)
    with pytest.raises(NotReady):
        waiting.future.result(5)
    assert runner.state == "failed"
    assert isinstance(runner.failure, EngineBroken)
    with pytest.raises(NotReady):
        runner.submit(3)


def test_a_failed_load_is_a_failure():
    """What `load` raises is kept for the process to see."""

    def load():
        raise RuntimeError("no weights")

    runner = Runner(load)
    runner.start()
    wait_until(lambda: runner.failure is not None)
    assert runner.state == "failed"


def test_stop_answers_everybody(started):
    """At the end the waiting are told that nothing ran, and the running one that it is lost."""
    gate = Gate()
    runner = started(gate)
    running = runner.submit(1)
    wait_until(lambda: runner.in_flight == 1)
    waiting = runner.submit(2)
    runner.stop()
    with pytest.raises(WorkLost):
        running.future.result(5)
    with pytest.raises(NotReady):
        waiting.future.result(5)
