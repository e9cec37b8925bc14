"""Runs the simulator and prints its tables; what they mean stands in docs/performance.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from bench.scheduling import scenarios
from bench.scheduling.claims import claims
from bench.scheduling.document import document
from bench.scheduling.experiment import experiment
from bench.scheduling.report import agreement, summary
from bench.scheduling.rows import rows, text
from bench.scheduling.validation import validate

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "bench" / "results" / "scheduling.json"
DOCUMENT: Final = ROOT / "docs" / "performance.md"
TRIAL_LOADS: Final = (0.7, 0.9)


def main() -> int:
    """Runs what was asked for; 1 where a promise does not hold."""
    asked = _arguments()
    chosen = scenarios.quick() if asked.quick else scenarios.every()
    seeds = asked.seeds or (3 if asked.quick else 10)
    agreements = []
    if asked.trial or asked.write:  # first, while the machine is calm
        agreements = [validate(load, asked.trial_requests) for load in TRIAL_LOADS]
        sys.stdout.write(agreement(agreements) + "\n")
    findings = experiment(chosen, seeds, asked.processes)
    judged = claims(findings)
    sys.stdout.write(summary(findings, judged))
    if not asked.quick:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text(rows(findings, agreements)), encoding="utf-8")
    if asked.write:
        DOCUMENT.write_text(document(findings, judged, agreements), encoding="utf-8")
    return 0 if all(each.holds for each in judged) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scheduling", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small scenarios; writes nothing")
    parser.add_argument("--seeds", type=int, help="traces per scenario")
    parser.add_argument("--processes", type=int, default=1, help="seeds run side by side")
    parser.add_argument("--trial", action="store_true", help="the real gateway as well")
    parser.add_argument("--trial-requests", type=int, default=120, help="length of that trial")
    parser.add_argument("--write", action="store_true", help="docs/performance.md as well")
    asked = parser.parse_args()
    if asked.quick and asked.write:
        parser.error("--write needs the whole run")
    return asked


if __name__ == "__main__":
    sys.exit(main())
