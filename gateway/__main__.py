"""Runs the command line as `python -m gateway`."""

from gateway.cli import main

main()
