"""What nobody can beat: the most requests that could be on time, for one who knows the future.

The linear relaxation of the scheduling problem, solved exactly. One machine as fast as all workers
together, which may stop and go on at no cost, counts a share of a request as that share on time.
Every schedule of the real workers is a schedule of that machine with the same requests on time,
so no policy can have more of them. Faults, and which worker can do what, are left out, which can
only raise the bound.

The amounts of work that can be on time form a polymatroid, so the greedy way is the best one:
take requests from the shortest up, and give each as much as leaves those before it whole. How
much that is one run of earliest-due-first tells: by as much as the latest is late, too much was
taken.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scheduling.job import Job

    Piece = tuple[float, float, float]  # release, due, work


def attainment(jobs: Sequence[Job], workers: int, scale: float) -> float:
    """Returns the largest share of requests that can be on time; times are in seconds."""
    return sum(shares(jobs, workers, scale)) / len(jobs)


def shares(jobs: Sequence[Job], workers: int, scale: float) -> list[float]:
    """Returns for each request, shortest first, the share of it that is on time."""
    machine = _Machine(workers)
    return [
        machine.take((job.arrived, job.due(scale), job.seconds)) / job.seconds
        for job in sorted(jobs, key=lambda job: job.seconds)
    ]


class _Machine:
    """Is the one fast machine with what it has been given: its busy periods, in order."""

    def __init__(self, workers: int) -> None:
        self._speed = float(workers)
        self._begins: list[float] = []
        self._ends: list[float] = []
        self._pieces: list[list[Piece]] = []

    def take(self, piece: Piece) -> float:
        """Takes as much of a piece as can be on time, and returns how much."""
        release, due, work = piece
        first = last = bisect_right(self._ends, release)
        begin, end, pieces = release, release + work / self._speed, [piece]
        if first < len(self._begins) and self._begins[first] <= release:
            begin = self._begins[first]
            end, pieces = self._ends[first] + work / self._speed, [*self._pieces[first], piece]
            last += 1
        while last < len(self._begins) and self._begins[last] < end:
            end += self._ends[last] - self._begins[last]
            pieces += self._pieces[last]
            last += 1
        late = self._speed * _lateness(pieces, self._speed)
        if late > 1e-9:
            if work - late > 1e-9:
                return self.take((release, due, work - late))
            return 0.0
        self._begins[first:last] = [begin]
        self._ends[first:last] = [end]
        self._pieces[first:last] = [pieces]
        return work


def _lateness(pieces: Sequence[Piece], speed: float) -> float:
    """Returns by how much the latest is late where the earliest due goes first; 0 if none is."""
    ordered = sorted(pieces)
    now, next_one, latest = ordered[0][0], 0, 0.0
    open_pieces: list[tuple[float, float]] = []  # due, work left
    while next_one < len(ordered) or open_pieces:
        if not open_pieces:
            now = max(now, ordered[next_one][0])
        while next_one < len(ordered) and ordered[next_one][0] <= now:
            _, due, work = ordered[next_one]
            heapq.heappush(open_pieces, (due, work))
            next_one += 1
        due, work = open_pieces[0]
        ends = now + work / speed
        if next_one < len(ordered) and ordered[next_one][0] < ends:
            left = work - speed * (ordered[next_one][0] - now)
            heapq.heapreplace(open_pieces, (due, left))
            now = ordered[next_one][0]
        else:
            heapq.heappop(open_pieces)
            now = ends
            latest = max(latest, now - due)
    return latest
