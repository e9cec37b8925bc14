"""The environment overlays the file, and what is loaded does not change any more."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from gateway.config_file import ConfigError, load_config

POOL = """
[pools.i2i]
tasks = ["i2i"]
queue_limit = 7
workers = [{ url = "http://w.test", name = "big" }, { url = "http://v.test" }]
"""


@pytest.fixture
def path(tmp_path):
    """Writes a small configuration file."""
    written = tmp_path / "turnout.toml"
    written.write_text(POOL, encoding="utf-8")
    return written


def test_the_environment_overlays_the_file(path):
    """`TURNOUT__POOLS__I2I__QUEUE_LIMIT=50` wins over the file."""
    assert 7 == load_config(path, {}).pools["i2i"].queue_limit
    overlaid = load_config(path, {"TURNOUT__POOLS__I2I__QUEUE_LIMIT": "50"})
    assert 50 == overlaid.pools["i2i"].queue_limit


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.0.0.0", "0.0.0.0"), ('"::1"', "::1"), ("localhost", "localhost"), ("", "")],
)
def test_a_value_that_is_no_toml_is_a_text(path, text, value):
    """Values in the environment parse as TOML, and are texts where they do not."""
    assert value == load_config(path, {"TURNOUT__SERVER__HOST": text}).server.host


def test_lists_and_new_sections_come_from_the_environment():
    """An overlay writes lists and sections that the file does not have."""
    environment = {
        "TURNOUT__POOLS__T2I__TASKS": '["t2i"]',
        "TURNOUT__POOLS__T2I__WORKERS": '[{ url = "http://w.test" }]',
        "TURNOUT__SERVER__CORS_ORIGINS": '["https://ui.test"]',
    }
    config = load_config(None, environment)
    assert ("t2i",) == config.pools["t2i"].tasks
    assert "http://w.test" == config.pools["t2i"].workers[0].url
    assert ("https://ui.test",) == config.server.cors_origins


def test_other_variables_are_not_read():
    """Variables without our prefix, and the one that names the file, change nothing."""
    environment = {"TURNOUT_CONFIG": "x.toml", "SERVER__PORT": "1", "turnout__server__port": "2"}
    assert load_config(None, {}) == load_config(None, environment)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "TURNOUT__SERVER__PROT",
            "1",
            "TURNOUT__SERVER__PROT: server.prot: unknown key; did you mean 'port'?",
        ),
        ("TURNOUT__SERVER__PORT", "many", "TURNOUT__SERVER__PORT: server.port: "),
        ("TURNOUT__STORE__URL", "x", "TURNOUT__STORE__URL: store: unknown key; did you mean "),
    ],
)
def test_a_mistake_in_the_environment_is_named(name, text, message):
    """A wrong variable is refused with its key and the nearest known one."""
    with pytest.raises(ConfigError) as caught:
        load_config(None, {name: text})
    assert str(caught.value).startswith(message)


def test_a_value_is_no_section(path):
    """A variable that reaches into a value is refused by its own name."""
    name = "TURNOUT__POOLS__I2I__QUEUE_LIMIT__MORE"
    with pytest.raises(ConfigError, match=f"{name}: queue_limit is a value"):
        load_config(path, {name: "1"})


def test_workers_are_named_by_pool_and_position(path):
    """A worker without a name is called by its pool and its place there."""
    names = [(name, pool) for name, pool, _ in load_config(path, {}).worker_names()]
    assert [("big", "i2i"), ("i2i-1", "i2i")] == names


def every_section(model):
    """Lists every section of a configuration."""
    if isinstance(model, BaseModel):
        yield model
        model = dict(model)
    for value in model.values() if isinstance(model, dict) else model:
        if isinstance(value, BaseModel | dict | tuple):
            yield from every_section(value)


def test_a_configuration_is_a_snapshot(path):
    """No option of a loaded configuration can be set."""
    sections = list(every_section(load_config(path, {})))
    assert 9 == len(sections)
    for section in sections:
        for key in type(section).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(section, key, getattr(section, key))


def test_two_loads_share_nothing(path):
    """Two configurations are equal, and neither sees what is done to the other."""
    first, second = load_config(path, {}), load_config(path, {})
    assert first == second
    assert first.pools is not second.pools
    assert first.models is not second.models
