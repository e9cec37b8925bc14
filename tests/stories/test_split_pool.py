"""A pool behind an external encoder whose workers read pictures themselves, if they say so."""

from __future__ import annotations

import pytest

from gateway.config_file import ConfigError, load_config
from tests.support.house import code_of
from tests.support.pictures import DATA8
from tests.support.process import running
from tests.support.serve import until

pytestmark = pytest.mark.anyio

DECLARED = {"tasks": ["t2i", "i2i"], "encoder": "external"}


async def split(house, *workers):
    """Opens one pool for both tasks behind an external encoder."""
    encoder = await house.worker("T2I")
    sections = [{"url": worker.url} for worker in workers]
    options = {"encoder_url": encoder.url, "i2i_via_encoder": True}
    await house.open({"both": sections}, pool=options, wait=False)
    pool = house.pool("both")
    await until(lambda: pool.encoder.is_up and all(w.is_in_service for w in pool.workers))
    return encoder


async def test_pictures_go_to_those_who_declare_it_and_to_no_other(house):
    """Of two workers behind one encoder the stock one gets text only, whatever it reports (R4)."""
    stock, ours = await house.worker("TI2I"), await house.worker("TI2I")
    ours.more_info = DECLARED
    await split(house, stock, ours)
    for n in range(3):
        edit = await house.generate(prompt=f"{n}", image=DATA8)
        assert (200, "both-1") == (edit.status_code, edit.headers["x-turnout-worker"])
    assert 0 == stock.hits
    assert "both-0" == (await house.generate(prompt="p")).headers["x-turnout-worker"]


async def test_without_a_declaration_an_edit_is_refused(house):
    """Where nobody behind the encoder says that it reads pictures, edits get 503 (B15)."""
    stock = await house.worker("TI2I")
    await split(house, stock)
    assert (503, "no_worker_available", None) == code_of(
        await house.generate(prompt="p", image=DATA8)
    )
    assert 200 == (await house.generate(prompt="p")).status_code
    assert 1 == stock.hits


async def test_a_setting_does_not_stand_for_a_declaration(house):
    """`tasks` in the configuration does not make a worker behind an encoder see."""
    stock, encoder = await house.worker("TI2I"), await house.worker("T2I")
    sections = [{"url": stock.url, "tasks": ["t2i", "i2i"]}]
    options = {"encoder_url": encoder.url, "i2i_via_encoder": True}
    await house.open({"both": sections}, pool=options, wait=False)
    await until(lambda: house.pool("both").workers[0].is_in_service)
    assert 503 == (await house.generate(prompt="p", image=DATA8)).status_code
    assert 0 == stock.hits


async def test_a_worker_that_declares_no_longer_gets_no_picture(house):
    """What a worker declares counts as long as it declares it."""
    ours = await house.worker("TI2I", more_info=DECLARED)
    await split(house, ours)
    assert 200 == (await house.generate(prompt="p", image=DATA8)).status_code
    ours.more_info = {}
    await until(lambda: not house.pool("both").workers[0].capability.is_declared)
    assert 503 == (await house.generate(prompt="q", image=DATA8)).status_code
    assert 1 == ours.hits


@pytest.mark.parametrize(("says", "code"), [({}, 1), (DECLARED, 0)])
async def test_check_says_who_does_not_declare(house, tmp_path, says, code):
    """`turnout check` names a worker behind an encoder that does not say that it reads pictures."""
    worker, encoder = await house.worker("TI2I", more_info=says), await house.worker("T2I")
    config, log = tmp_path / "turnout.toml", tmp_path / "log"
    config.write_text(
        f'[pools.both]\ntasks = ["i2i", "t2i"]\nencoder_url = "{encoder.url}"\n'
        f'i2i_via_encoder = true\nworkers = [{{ url = "{worker.url}" }}]\n'
    )
    with running("gateway", "check", "--config", str(config), log=log) as process:
        await until(lambda: process.poll() is not None, 30)
    assert code == process.returncode
    assert ("does not say that it reads pictures itself" in log.read_text()) is (code == 1)


async def test_check_heeds_configured_tasks(house, tmp_path):
    """`turnout check` believes `tasks` of a worker over its report, as the gateway does (B17)."""
    worker = await house.worker("T2I")
    config, log = tmp_path / "turnout.toml", tmp_path / "log"
    section = f'{{ url = "{worker.url}", tasks = ["t2i", "i2i"] }}'
    config.write_text(f'[pools.i2i]\ntasks = ["i2i"]\nworkers = [{section}]\n')
    with running("gateway", "check", "--config", str(config), log=log) as process:
        await until(lambda: process.poll() is not None, 30)
    assert 0 == process.returncode


def test_the_option_has_to_be_set(tmp_path):
    """Without `i2i_via_encoder` such a pool is refused at load, with the way out."""
    config = tmp_path / "turnout.toml"
    config.write_text('[pools.both]\ntasks = ["i2i"]\nencoder_url = "http://127.0.0.1:1"\n')
    with pytest.raises(ConfigError, match="i2i_via_encoder = true"):
        load_config(config, {})
