"""Stock SGLang servers as processes: started in a group of their own, always ended with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx

from tests.support.process import answers, free_ports, wait_for

STUB = Path(__file__).parent / "stub"
START_SECONDS = 600
"""Each server takes less than a minute on two free cores, and several where others work too."""


class Server:
    """Is one running server with its address and its log."""

    def __init__(self, name, command, url, directory, env=None):
        self.name = name
        self.url = url
        self.log = directory / f"{name}.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                cwd=directory,  # SGLang leaves files where it starts
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"} | (env or {}),
                start_new_session=True,  # its own children end with it
            )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sign)
            except ProcessLookupError:
                break
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                continue
        self.process.wait()

    def wait(self, seconds=START_SECONDS, path="/health"):
        """Waits until it is healthy; fails with the end of its log if it ends before."""

        def ready():
            assert self.process.poll() is None, f"{self.name} ended:\n{self.text()[-4000:]}"
            return answers(self.url + path)

        wait_for(ready, seconds, every=0.5)
        return self

    def text(self):
        """Returns what it has logged so far."""
        return self.log.read_text(errors="replace")

    def client(self, seconds=300):
        """Returns a client of it."""
        return httpx.Client(base_url=self.url, timeout=seconds, trust_env=False)


class Sglang:
    """Starts the servers of one SGLang installation for one checkpoint."""

    def __init__(self, python, model, directory):
        self.python = Path(python).absolute()
        self.model = model
        self.directory = directory
        cache = self.python.parents[2] / "cache"  # compiled once, used again by the next run
        self.env = {"PYTHONPATH": str(STUB), "TORCHINDUCTOR_CACHE_DIR": str(cache)}

    def encoder(self, name="sglang-encoder"):
        """Starts the autoregressive half (SRT)."""
        [port] = free_ports(1)
        command = [self.python, "-m", "sglang.launch_server", "--host", "127.0.0.1"]
        command += ["--port", port, "--model-path", self.model / "vision_language_encoder"]
        command += ["--tokenizer-path", self.model / "processor", "--enable-multimodal"]
        command += ["--image-processor-backend", "pil", "--device", "cpu", "--dtype", "float32"]
        command += ["--attention-backend", "torch_native", "--disable-overlap-schedule"]
        command += ["--skip-server-warmup", "--sleep-on-idle", "--mem-fraction-static", "0.1"]
        command += ["--max-total-tokens", "8192", "--preferred-sampling-params", self.sampling()]
        return self._start(name, command, port)

    def diffusion(self, name, *, encoder_url=None, mended=False):
        """Starts the diffusion half, with the encoder in process unless a URL is given."""
        port, (master, scheduler) = port_with_a_free_neighbour(), free_ports(2)
        command = [self.python.parent / "sglang", "serve", "--model-type", "diffusion"]
        command += ["--model-path", self.model, "--host", "127.0.0.1", "--port", port]
        command += [
            "--warmup-mode",
            "off",
            "--sleep-on-idle",
            "--output-path",
            "",
            "--input-save-path",
            "",
        ]
        command += ["--master-port", master, "--scheduler-port", scheduler]
        if encoder_url is not None:
            command += ["--srt-encoder-url", encoder_url]
        return self._start(name, command, port, {"TURNOUT_PATCH": "1"} if mended else {})

    def _start(self, name, command, port, env=None):
        url = f"http://127.0.0.1:{port}"
        return Server(name, command, url, self.directory, self.env | (env or {}))

    def sampling(self):
        """Returns what the encoder shall do where a call does not say.

        The real model is trained not to draw the rows beyond the codebook, which the diffusion half
        cannot read; a random one does draw them, and SGLang's own client forbids nothing.
        """
        config = json.loads((self.model / "vision_language_encoder/config.json").read_text())
        codebook = config["vq_config"]["num_embeddings"]
        rows = range(codebook, config["text_config"]["vision_vocab_size"])
        return json.dumps({"top_p": 0.75, "logit_bias": {str(row): -1e9 for row in rows}})

    def versions(self):
        """Returns the versions that its environment holds."""
        names = ("sglang", "torch", "transformers", "diffusers")
        code = f"import importlib.metadata as m; print(*map(m.version, {names}))"
        done = subprocess.run(
            [self.python, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        return dict(zip(names, done.stdout.split(), strict=True))


def port_with_a_free_neighbour():
    """Returns a port for a diffusion server, whose broker takes the next one without asking."""
    while True:
        [port] = free_ports(1)
        with socket.socket() as neighbour, suppress(OSError, OverflowError):
            neighbour.bind(("127.0.0.1", port + 1))
            return port


def own(module, *arguments, name, port, directory, env=None):
    """Starts one of our own processes: `gateway` or `workers`."""
    command = [sys.executable, "-m", module, *arguments]
    root = {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "2"}
    return Server(name, command, f"http://127.0.0.1:{port}", directory, root | (env or {}))
