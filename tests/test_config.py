"""The configuration: defaults, the overlay, and messages that say what to correct."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from gateway.config import Config
from gateway.config_file import ConfigError, load_config

DEFAULTS = [
    ("server.host", "127.0.0.1"),
    ("server.port", 8000),
    ("server.admin_host", "127.0.0.1"),
    ("server.admin_port", 8001),
    ("server.drain_delay_seconds", 0),
    ("server.drain_seconds", 30),
    ("server.cors_origins", ()),
    ("server.log_level", "info"),
    ("server.log_format", "auto"),
    ("limits.max_body_bytes", 67108864),
    ("limits.max_images", 4),
    ("limits.max_image_pixels", 16777216),
    ("limits.max_image_side", 8192),
    ("limits.max_prompt_chars", 32000),
    ("limits.unknown_fields", "refuse"),
    ("limits.animated_images", "first_frame"),
    ("server.public_url", None),
    ("fetch.enabled", False),
    ("fetch.allow_hosts", ()),
    ("artifacts.directory", None),
    ("artifacts.max_bytes", 1073741824),
    ("artifacts.ttl_seconds", 3600),
    ("artifacts.key", None),
    ("models.m.max_input_images", None),
    ("models.m.worker_model", "zai-org/GLM-Image"),
    ("models.m.aliases", ()),
    ("models.m.default_size", "1024x1024"),
    ("models.m.step", 32),
    ("models.m.max_side", 2048),
    ("models.m.size_policy", "crop"),
    ("pools.p.workers", ()),
    ("pools.p.encoder_url", None),
    ("pools.p.i2i_via_encoder", False),
    ("pools.p.queue_limit", 64),
    ("pools.p.deadline_seconds", 600),
    ("pools.p.connect_seconds", 3),
    ("pools.p.probe_seconds", 5),
    ("pools.p.order", "on_time"),
    ("pools.p.slo_factor", 3),
    ("pools.p.balance", "least_expected_work"),
    ("pools.w.workers.0.capacity", 1),
    ("pools.w.workers.0.name", ""),
    ("pools.w.workers.0.stops_on_disconnect", False),
    ("pools.w.workers.0.tasks", None),
]

SHORTEST = """
[models.m]
[pools.p]
tasks = ["t2i"]
[pools.w]
tasks = ["i2i"]
workers = [{ url = "http://w.test" }]
"""


@pytest.fixture
def write(tmp_path):
    """Writes a configuration file and returns its path."""

    def written(text):
        path = tmp_path / "turnout.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def at(config, place):
    """Follows a dotted place into a configuration."""
    for part in place.split("."):
        if isinstance(config, BaseModel):
            config = getattr(config, part)
        else:
            config = config[int(part) if part.isdecimal() else part]
    return config


def sections(model, place=""):
    """Lists every option of a configuration by its place."""
    inner = model if isinstance(model, dict) else dict(model)
    for key, value in inner.items():
        if isinstance(value, BaseModel | dict):
            yield from sections(value, f"{place}{key}.")
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            for number, each in enumerate(value):
                yield from sections(each, f"{place}{key}.{number}.")
        else:
            yield f"{place}{key}"


@pytest.mark.parametrize(("place", "default"), DEFAULTS)
def test_an_option_has_its_promised_default(write, place, default):
    """Every option has the default that others rely on."""
    assert default == at(load_config(write(SHORTEST), {}), place)


def test_the_table_of_defaults_is_complete(write):
    """Every option is in the table above, save those that have to be given."""
    required = {"pools.p.tasks", "pools.w.tasks", "pools.w.workers.0.url"}
    known = {place.replace("pools.p.", "pools.w.") for place, _ in DEFAULTS}
    missing = {
        place
        for place in set(sections(load_config(write(SHORTEST), {}))) - required
        if place.replace("pools.p.", "pools.w.") not in known
    }
    assert set() == missing


def test_without_a_file_everything_is_at_its_default():
    """No file at all is the default configuration, with its one implicit model."""
    config = load_config(None, {})
    assert Config() == config
    assert {"glm-image": ("zai-org/GLM-Image",)} == {
        name: model.aliases for name, model in config.models.items()
    }
    assert {} == config.pools


MESSAGES = [
    # text, what the message holds
    ("[server]\nprot = 1", ["server.prot: unknown key; did you mean 'port'?"]),
    ("[sever]", ["sever: unknown key; did you mean 'server'?"]),
    ("[pool.t2i]", ["pool: unknown key; did you mean 'pools'?"]),
    ("[limits]\nmax_image = 1", ["limits.max_image: unknown key; did you mean 'max_images'?"]),
    ("[models.x]\nalias = []", ["models.x.alias: unknown key; did you mean 'aliases'?"]),
    (
        '[pools.t2i]\ntasks = ["t2i"]\nqueue_limt = 3',
        ["pools.t2i.queue_limt: unknown key; did you mean 'queue_limit'?"],
    ),
    (
        '[pools.t2i]\ntasks = ["t2i"]\nworkers = [{ ulr = "http://w" }]',
        ["pools.t2i.workers.0.url: ", "pools.t2i.workers.0.ulr: unknown key; did you mean 'url'?"],
    ),
    (
        '[pools.workers]\ntasks = ["t2i"]\nqueue_limt = 3',
        ["pools.workers.queue_limt: unknown key; did you mean 'queue_limit'?"],
    ),
    (
        '[pools.tasks]\ntasks = ["t2i"]\nworkers = [{ url = "http://w", capacty = 2 }]',
        ["pools.tasks.workers.0.capacty: unknown key; did you mean 'capacity'?"],
    ),
    ("[pools.t2i]", ["pools.t2i.tasks: "]),
    ("[pools.t2i]\ntasks = []", ["pools.t2i.tasks: "]),
    ('[pools.t2i]\ntasks = ["video"]', ["pools.t2i.tasks.0: ", "'t2i' or 'i2i'"]),
    ('[pools.T2I]\ntasks = ["t2i"]', ["pools.T2I: "]),
    ('[pools.t2i]\ntasks = ["t2i"]\nqueue_limit = -1', ["pools.t2i.queue_limit: "]),
    ('[pools.t2i]\ntasks = ["t2i"]\ndeadline_seconds = 0', ["pools.t2i.deadline_seconds: "]),
    ('[pools.t2i]\ntasks = ["t2i"]\nworkers = [{ url = "w:1" }]', ["pools.t2i.workers.0.url: "]),
    (
        '[pools.t2i]\ntasks = ["t2i"]\nworkers = [{ url = "http://w/v1" }]',
        ["pools.t2i.workers.0.url: "],
    ),
    ("[server]\nport = 70000", ["server.port: "]),
    ('[server]\nport = "http"', ["server.port: "]),
    ('[server]\nlog_level = "loud"', ["server.log_level: "]),
    ("server = 1", ["server: "]),
    ('[models.x]\ndefault_size = "big"', ["models.x.default_size: "]),
    ('[models.x]\nsize_policy = "stretch"', ["models.x.size_policy: "]),
    ("[server\n", ["is not valid TOML"]),
    ("a = 1\na = 2", ["is not valid TOML"]),
]


@pytest.mark.parametrize(("text", "parts"), MESSAGES)
def test_a_mistake_is_named_with_file_key_and_way_out(write, text, parts):
    """Every message about a wrong file names the file, the key, and the nearest known key."""
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert all(line.startswith(f"{path}: ") for line in str(caught.value).splitlines())
    assert [] == [part for part in parts if part not in str(caught.value)]


def test_all_mistakes_are_named_at_once(write):
    """A file with several mistakes is answered with all of them, one a line."""
    with pytest.raises(ConfigError) as caught:
        load_config(write("[server]\nprot = 1\nhots = 2\n[limits]\nmax_images = 0"), {})
    assert 3 == len(str(caught.value).splitlines())


@pytest.mark.parametrize("name", ["missing.toml", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    """A file that is missing or no file is named, with the reason."""
    with pytest.raises(ConfigError, match="cannot be read: ") as caught:
        load_config(tmp_path / name, {})
    assert str(caught.value).startswith(str(tmp_path / name))


def test_a_file_in_another_encoding_is_not_toml(tmp_path):
    """A file that is no UTF-8 is refused by name."""
    path = tmp_path / "latin.toml"
    path.write_bytes(b'[server]\nhost = "\xe9t\xe9"')
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_config(path, {})


@pytest.mark.parametrize("tasks", ['["i2i"]', '["t2i", "i2i"]'])
def test_an_external_encoder_with_pictures_is_refused_with_the_reason(write, tasks):
    """A pool with an encoder_url cannot list i2i, and the message says why (R4)."""
    text = f'[pools.p]\ntasks = {tasks}\nencoder_url = "http://e.test"'
    with pytest.raises(ConfigError, match=r"pools\.p: a pool with an encoder_url cannot serve i2i"):
        load_config(write(text), {})


@pytest.mark.parametrize(
    ("workers", "kind"),
    [
        ('{ url = "http://a", name = "x" }, { url = "http://b", name = "x" }', "name 'x'"),
        ('{ url = "http://a", name = "q-0" }', "name 'q-0'"),
        ('{ url = "http://a" }, { url = "http://a/" }', "address 'http://a'"),
        ('{ url = "http://other" }', "address 'http://other'"),
    ],
)
def test_names_and_addresses_of_workers_are_unique(write, workers, kind):
    """A worker's name or address that is used twice, in any pools, is refused."""
    text = f'[pools.p]\ntasks = ["t2i"]\nworkers = [{workers}]\n'
    text += '[pools.q]\ntasks = ["i2i"]\nworkers = [{ url = "http://other" }]'
    with pytest.raises(ConfigError, match=f"the worker {kind} is used twice"):
        load_config(write(text), {})


@pytest.mark.parametrize("aliases", ['["a"]', '["other"]', '["b", "b"]'])
def test_names_of_models_are_unique(write, aliases):
    """A model's name or alias that is used twice is refused."""
    text = f'[models.x]\naliases = {aliases}\n[models.other]\naliases = ["a"]'
    with pytest.raises(ConfigError, match=r"the model name or alias '.+' is used twice"):
        load_config(write(text), {})
