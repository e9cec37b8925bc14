"""The targets of the contract suite, each started once per process."""

import pytest

from tests.contract.targets import TARGETS


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """The tiny checkpoint."""
    import torch

    from workers.checkpoint import read_checkpoint
    from workers.tiny import write_tiny

    torch.set_num_threads(1)
    directory = tmp_path_factory.mktemp("contract") / "glm-image-tiny"
    write_tiny(directory)
    return read_checkpoint(directory)


@pytest.fixture(scope="session", params=TARGETS, ids=lambda open_target: open_target.__name__)
def target(request, checkpoint):
    """One server after the other."""
    with request.param(checkpoint) as opened:
        yield opened
