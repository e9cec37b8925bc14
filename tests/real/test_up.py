"""`turnout up` as a citizen: it says what is wrong in a sentence and leaves nothing behind."""

from __future__ import annotations

import shutil
import signal
import socket

import psutil
import pytest

from tests.real.conftest import NAMES, open_demo
from tests.support.process import free_ports, running, wait_for

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def directory(tiny, tmp_path):
    """Offers a directory of its own that has the checkpoint already."""
    return shutil.copytree(tiny, tmp_path / "dir")


def assert_nothing_is_left(opened, pids):
    """Finds no surviving process and no listening port."""
    assert [] == [pid for pid in pids if psutil.pid_exists(pid)]
    for port in opened.ports.values():
        with socket.socket() as sock:
            assert 0 != sock.connect_ex(("127.0.0.1", port)), port


def last_line(opened):
    """Returns the sentence that it ended with."""
    return opened.text().strip().splitlines()[-1]


@pytest.mark.parametrize("name", ["encoder server", "T2I worker", "I2I worker", "gateway"])
def test_a_child_that_dies_at_start_ends_everything(directory, tmp_path, name):
    """A child killed during start: one sentence that names it, exit code 1, nothing left."""
    words = {
        "encoder server": ["encoder"],
        "T2I worker": ["serve", "http"],
        "I2I worker": ["serve", "in-process"],
        "gateway": ["serve", "--config"],
    }[name]
    with open_demo(directory, tmp_path / "log") as opened:
        victims = []

        def find():
            for child in opened.children():
                line = child.cmdline()
                if all(any(word in part for part in line) for word in words) and (
                    name != "encoder server" or "--encoder" not in line
                ):
                    victims.append(child)
            return bool(victims)

        wait_for(find, 120)
        pids = [child.pid for child in opened.children()]
        victims[0].kill()
        assert 1 == opened.process.wait(60)
        assert (
            f"turnout: the {name} ended with signal 9, so everything was stopped; its log "
            in last_line(opened)
        )
        assert_nothing_is_left(opened, pids)


def test_a_tiny_checkpoint_that_fails_is_named(tmp_path):
    """When the checkpoint cannot be written, the sentence says so."""
    with open_demo(tmp_path / "dir", tmp_path / "log") as opened:
        wait_for(opened.children, 60)
        pids = [child.pid for child in opened.children()]
        opened.children()[0].kill()
        assert 1 == opened.process.wait(60)
        assert "the tiny checkpoint ended with signal 9" in last_line(opened)
        assert_nothing_is_left(opened, pids)
        assert not (tmp_path / "dir" / "glm-image-tiny").exists()


def test_a_broken_checkpoint_is_one_sentence(tmp_path):
    """A directory that holds no checkpoint ends the start; the worker's log says why."""
    (tmp_path / "dir" / "glm-image-tiny").mkdir(parents=True)
    with open_demo(tmp_path / "dir", tmp_path / "log") as opened:
        assert 1 == opened.process.wait(120)
        assert "ended with exit code 1, so everything was stopped; its log is" in last_line(opened)
        assert_nothing_is_left(opened, [])


@pytest.mark.parametrize("name", ["port", "admin-port", "encoder-port", "t2i-port", "i2i-port"])
def test_a_port_in_use_is_one_sentence(directory, tmp_path, name):
    """A port in use: one sentence with the option that moves it, exit code 1, nothing started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        names = [each for each in NAMES if each != name]
        free = zip(names, free_ports(len(names)), strict=True)
        options = [f"--{each}={number}" for each, number in free]
        arguments = ("gateway", "up", "--dir", str(directory), f"--{name}={port}", *options)
        with running(*arguments, log=tmp_path / "log") as process:
            assert 1 == process.wait(60)
    [line] = (tmp_path / "log").read_text().splitlines()
    assert line.startswith(f"turnout: cannot listen on 127.0.0.1 port {port}: ")
    assert f"choose another with --{name} (make up ARGS='--{name} " in line


@pytest.mark.parametrize("how", ["SIGINT while starting", "SIGTERM when ready", "SIGKILL"])
def test_every_end_ends_every_process(directory, tmp_path, how):
    """Ctrl-C and SIGTERM exit with 0; even SIGKILL leaves no process and no port."""
    with open_demo(directory, tmp_path / "log") as opened:
        if how == "SIGTERM when ready":
            wait_for(lambda: "Ctrl-C" in opened.text(), 120)
        wait_for(lambda: len(opened.children()) >= 3, 60)
        children = opened.children()
        opened.process.send_signal(getattr(signal, how.split()[0]))
        code = opened.process.wait(60)
        assert (-9 if how == "SIGKILL" else 0) == code
        psutil.wait_procs(children, timeout=30)
        assert_nothing_is_left(opened, [child.pid for child in children])
