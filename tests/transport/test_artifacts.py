"""The artifact store: bounded, swept, and shared by several gateways."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

from gateway.routing.links import is_name
from gateway.transport.artifacts import Artifact, ArtifactStore, StoreFault, default_directory
from tests.support.serve import until

pytestmark = pytest.mark.anyio


class Clock:
    """Is a clock that a test moves; it never tells the same time twice."""

    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        self.now += 0.001
        return self.now


@asynccontextmanager
async def opened(directory, max_bytes=1000, ttl_seconds=60.0, **options):
    """Opens a store, and stops its sweeper at the end."""
    store = ArtifactStore(directory, max_bytes, ttl_seconds, **options)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


def kept(directory):
    """Lists the pictures that lie in a directory."""
    return {path.name for path in directory.iterdir() if is_name(path.name)}


async def test_a_picture_is_kept_until_it_expires(tmp_path):
    """What was put is there to the stated second, and swept afterwards (B28)."""
    clock = Clock()
    async with opened(tmp_path / "a" / "b", clock=clock) as store:
        artifact = await store.put(b"picture", "webp")
        assert 1_000_060 < artifact.expires <= 1_000_062
        clock.now = artifact.expires - 0.5
        await store.sweep()
        assert b"picture" == await store.get(artifact.name)
        clock.now = artifact.expires + 1
        assert None is await store.get(artifact.name)
        await store.sweep()
        assert set() == kept(tmp_path / "a" / "b")


async def test_only_we_can_read_what_is_kept(tmp_path):
    """The directory, the key and the pictures are for their owner alone (B28)."""
    async with opened(tmp_path / "new") as store:
        await store.put(b"picture", "png")
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()}
    assert (0o700, {0o600}) == ((tmp_path / "new").stat().st_mode & 0o777, modes)


async def test_the_oldest_make_room(tmp_path):
    """The pictures never take more than the bound, and the newest stay (B28)."""
    async with opened(tmp_path, max_bytes=1000, clock=Clock()) as store:
        names = [(await store.put(bytes(300), "png")).name for _ in range(5)]
        assert set(names[-3:]) == kept(tmp_path)
        last = (await store.put(bytes(1000), "png")).name
        assert {last} == kept(tmp_path)
        with pytest.raises(StoreFault, match="1001 bytes does not fit"):
            await store.put(bytes(1001), "png")
        assert {last} == kept(tmp_path)


async def test_what_is_no_picture_of_ours_is_not_taken_away(tmp_path):
    """Files of others stand in the directory uncounted and untouched (B28)."""
    for name in ("notes.txt", "x.tmp", "photo.png"):
        (tmp_path / name).write_bytes(bytes(5000))
    async with opened(tmp_path) as store:
        await store.put(bytes(1000), "png")
        await store.sweep()
    assert {"notes.txt", "x.tmp", "photo.png"} < {path.name for path in tmp_path.iterdir()}


async def test_a_crash_leaves_nothing_behind(tmp_path):
    """Half-written pictures and keys are removed at the next start, and never served (B28)."""
    half = "0" * 32 + ".png.tmp"
    for name in (half, "key.tmp"):
        (tmp_path / name).write_bytes(b"half")
    async with opened(tmp_path) as store:
        assert None is await store.get(half)
        assert {"key", "lock"} == {path.name for path in tmp_path.iterdir()}


def block(directory):
    """Puts a link that is not followed in the lock's place, in one step: nothing can be kept."""
    (directory / "link").symlink_to("nowhere")
    (directory / "link").replace(directory / "lock")


async def test_a_picture_that_cannot_be_kept_is_told(tmp_path):
    """A fault of the directory is one error that says where, and leaves nothing (B28)."""
    async with opened(tmp_path) as store:
        block(tmp_path)
        with pytest.raises(StoreFault, match=f"{tmp_path} cannot be used"):
            await store.put(b"picture", "png")
        assert {"key", "lock"} == {path.name for path in tmp_path.iterdir()}


async def test_a_restart_keeps_pictures_expiries_and_links(tmp_path):
    """A store opened again serves the links of the one before, no longer than promised (B28)."""
    clock = Clock()
    async with opened(tmp_path, clock=clock) as store:
        artifact = await store.put(b"picture", "png")
        signature = store.signature(artifact)
    clock.now += 30
    async with opened(tmp_path, clock=clock) as store:
        assert b"picture" == await store.get(artifact.name)
        assert store.admits(artifact, signature)
        clock.now += 32
        assert not store.admits(artifact, signature)
    async with opened(tmp_path, clock=clock):
        assert set() == kept(tmp_path)


async def test_two_stores_share_a_directory(tmp_path):
    """Whatever two stores put at once, each serves it, and the bound is theirs together (B28)."""
    async with opened(tmp_path) as one, opened(tmp_path) as two:
        puts = [store.put(b"%100d" % n, "png") for n in range(20) for store in (one, two)]
        artifacts = await asyncio.gather(*puts)
        assert 40 == len({artifact.name for artifact in artifacts})
        assert 10 == len(kept(tmp_path))
        for artifact in artifacts:
            assert await one.get(artifact.name) == await two.get(artifact.name)
            assert two.admits(artifact, one.signature(artifact))


STARTER = """
import asyncio, pathlib, sys
from gateway.transport.artifacts import Artifact, ArtifactStore
store = ArtifactStore(pathlib.Path(sys.argv[1]), 1000, 60)
asyncio.run(store.start())
print(store.signature(Artifact("0" * 32 + ".png", 1)))
"""


async def test_processes_that_start_at_once_agree_on_the_key(tmp_path):
    """The first to come makes the key, and all the others take it (B28)."""
    command = [sys.executable, "-c", STARTER, str(tmp_path / "new")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    outputs = {process.communicate()[0] for process in running}
    assert [1, 44] == [len(outputs), len(outputs.pop())]


async def test_a_given_key_counts_and_is_not_written_down(tmp_path):
    """Copies with one configured key agree without a key in the directory (B28)."""
    artifact = Artifact("0" * 32 + ".png", 2**39)
    async with (
        opened(tmp_path / "1", key=b"secret") as one,
        opened(tmp_path / "2", key=b"secret") as two,
        opened(tmp_path / "3") as other,
    ):
        assert two.admits(artifact, one.signature(artifact))
        assert not other.admits(artifact, one.signature(artifact))
    assert not (tmp_path / "1" / "key").exists()


async def test_a_key_that_is_too_short_is_refused(tmp_path):
    """A key file that anybody could guess does not sign (B28)."""
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(StoreFault, match="shorter than 32 bytes"):
        await ArtifactStore(tmp_path, 1000, 60).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a directory away")
async def test_a_directory_that_another_user_planted_is_refused(tmp_path):
    """In a place open to all, a directory of somebody else is not used (B28)."""
    tmp_path.chmod(0o1777)
    (tmp_path / "planted").mkdir()
    os.chown(tmp_path / "planted", 12345, 12345)
    with pytest.raises(StoreFault, match="belongs to another user"):
        await ArtifactStore(tmp_path / "planted", 1000, 60).start()


async def test_the_sweeper_works_by_itself_and_outlives_a_fault(tmp_path):
    """Expired pictures go without a request; a fault is told and the next round follows (B28)."""
    clock, faults = Clock(), []
    options = {"clock": clock, "sweep_seconds": 0.01, "faulted": faults.append}
    async with opened(tmp_path, **options) as store:
        await store.put(b"picture", "png")
        block(tmp_path)
        await until(lambda: faults)
        clock.now += 100
        (tmp_path / "lock").unlink()
        await until(lambda: not kept(tmp_path))
    assert {StoreFault} == set(map(type, faults))


async def test_a_key_that_was_cleaned_away_comes_back(tmp_path):
    """What cleans temporary directories cannot part the copies of a gateway (B28)."""
    artifact = Artifact("0" * 32 + ".png", 2**39)
    async with opened(tmp_path, sweep_seconds=0.01) as one:
        (tmp_path / "key").unlink()
        await until((tmp_path / "key").exists)
        async with opened(tmp_path) as two:
            assert two.admits(artifact, one.signature(artifact))


async def test_only_formats_of_ours_are_kept(tmp_path):
    """A format is part of a file's name, and is none that leads elsewhere (B28)."""
    async with opened(tmp_path) as store:
        with pytest.raises(ValueError, match="no pictures of format"):
            await store.put(b"picture", "/../../x")
    assert default_directory() == default_directory().absolute()
