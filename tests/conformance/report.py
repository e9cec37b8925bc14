"""The page that a run writes: what was asked of SGLang, what it answered, in which versions."""

from __future__ import annotations

import importlib.metadata
import platform
from collections import Counter
from datetime import UTC, datetime
from inspect import cleandoc

PAGE = """\
# Conformance: what we say of SGLang, seen on SGLang

`make conformance` wrote this page on {date}; change the tests in `tests/conformance`, not the page.

It installs stock SGLang from PyPI into `.conformance/` (about 7 GB, Linux on x86_64, a C++
compiler), starts its encoder server and its diffusion servers on the CPU with the tiny checkpoint
of `turnout-worker tiny`, and asks them, with and without our gateway in front.
It needs no GPU and takes six minutes on two free cores, and as long again to install; `make test`
does not need it.

What differs from SGLang on a GPU:

- Three fused operators, which SGLang compiles for GPUs, are replaced by plain ones
  (`tests/conformance/stub/sgl_kernel`).
- The encoder is told to sample from the codebook only: the trained model does so by itself, the
  tiny one has random weights.
- “mended” marks a server with a patch of transformers
  (`tests/conformance/stub/sitecustomize.py`): without it, stock SGLang in process fails every edit.
- All servers run with `--sleep-on-idle`: an idle SGLang server takes a whole core without.
- Times say nothing, and pixels say nothing of quality.

## Versions

| Side | Versions |
| --- | --- |
| SGLang's environment | {theirs} |
| Ours | {ours} |

## Rules

| Rule | Cases |
| --- | --- |
{rules}

## What the servers answer

| Server | Question | Answer |
| --- | --- | --- |
{facts}
"""


class Report:
    """Is what one run has seen so far, in order."""

    def __init__(self):
        self.is_whole = True
        self.versions = {}
        self.files = set()
        self._results = {}
        self._facts = {}

    def seen(self, server, question, answer):
        """Notes one answer; a second one to the same question must be the same."""
        key = server, question
        assert self._facts.setdefault(key, answer) == answer, (key, self._facts[key], answer)

    def note(self, item, outcome):
        """Notes the result of one phase of a test; the worst of them counts."""
        self.files.add(item.path)
        rule = " ".join(cleandoc(item.function.__doc__ or "").split())
        results = self._results.setdefault((item.originalname, rule), {})
        if outcome.skipped:
            reason = outcome.longrepr[2] if isinstance(outcome.longrepr, tuple) else ""
            results[item.nodeid] = "skipped: " + reason.removeprefix("Skipped: ")
        elif outcome.failed:
            results[item.nodeid] = "**failed**"
        else:
            results.setdefault(item.nodeid, "passed")

    def page(self):
        """Returns the page."""
        ours = {name: importlib.metadata.version(name) for name in ("turnout", "torch")}
        ours["transformers"] = importlib.metadata.version("transformers")
        ours["Python"] = platform.python_version()
        return PAGE.format(
            date=f"{datetime.now(UTC):%Y-%m-%d}",
            theirs=_listed(self.versions),
            ours=_listed(ours),
            rules=_rows(
                (rule, _counted(results.values())) for (_, rule), results in self._results.items()
            ),
            facts=_rows(self._joined()),
        )

    def _joined(self):
        """Lists the facts by server; one that several servers share is one row."""
        servers = {}
        for (server, question), answer in self._facts.items():
            servers.setdefault((question, answer), []).append(server)
        rows = [("; ".join(names), *said) for said, names in servers.items()]
        return sorted(rows, key=lambda row: row[0])


def _counted(results):
    return ", ".join(f"{count} {result}" for result, count in Counter(results).items())


def _listed(versions):
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _rows(rows):
    cells = ([str(cell).replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)
