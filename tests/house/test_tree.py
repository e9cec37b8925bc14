"""The tree carries nothing of the machine it was written on."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.house.trees import ROOT

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|Users|home/\w+)/")
INDEX = re.compile(r"index-url[= ]+https?://([^/\s'\"]+)")
PUBLIC_INDEXES = ("pypi.org", "download.pytorch.org")
FRAGMENT = re.compile(r"[0-9]+\.(added|changed|fixed|removed)\.md")


@pytest.fixture(scope="module")
def tracked():
    """Lists the text of every file that git tracks or would track."""
    if not (ROOT / ".git").exists():
        pytest.skip("this copy of the tree has no history to ask")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    texts = {}
    for name in filter(None, names.decode().split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (data := path.read_bytes()):
            texts[name] = data.decode()
    return texts


def hits(texts: dict[str, str], pattern: re.Pattern[str]) -> list[str]:
    """Names every line in which a pattern occurs."""
    return [
        f"{name}:{number} {line.strip()[:80]}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_machine_path(tracked):
    """No tracked file names a home or a working directory of one machine."""
    assert [] == hits(tracked, MACHINE_PATH)


def test_packages_come_from_public_indexes(tracked):
    """A package index that a tracked file names is one that everybody can reach."""
    hosts = {host for text in tracked.values() for host in INDEX.findall(text)}
    assert set() == hosts - set(PUBLIC_INDEXES)


def test_changelog_fragments_are_named_by_number_and_kind():
    """A changelog fragment is called NUMBER.added.md, .changed.md, .fixed.md or .removed.md."""
    names = [path.name for path in (ROOT / "changelog.d").glob("[!.]*")]
    assert [] == [name for name in names if not FRAGMENT.fullmatch(name)]
