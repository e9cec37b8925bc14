"""GLM-Image workers: what makes the pictures. Importing this needs no torch."""

from workers.app import create_app
from workers.encoder_app import create_encoder_app
from workers.engine import Engine, ImageLimits, Picture, PictureRequest, WorkerInfo
from workers.fake import FakeEngine, fake_colours

__all__ = [
    "Engine",
    "FakeEngine",
    "ImageLimits",
    "Picture",
    "PictureRequest",
    "WorkerInfo",
    "create_app",
    "create_encoder_app",
    "fake_colours",
]
