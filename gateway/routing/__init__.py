"""Decides: pure functions and small objects, no await, no sockets, the clock is an argument."""
