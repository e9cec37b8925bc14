"""Carries: bytes and time, over asyncio and HTTP. Knows no web framework."""
