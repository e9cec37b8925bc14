"""Turnout's gateway: one endpoint, every image request on the track that can serve it."""

from gateway.app import create_admin_app, create_app
from gateway.config import Config
from gateway.config_file import ConfigError, load_config
from gateway.errors import GatewayError
from gateway.runtime import Runtime

__version__ = "0.1.0"

__all__ = [
    "Config",
    "ConfigError",
    "GatewayError",
    "Runtime",
    "__version__",
    "create_admin_app",
    "create_app",
    "load_config",
]
