"""Speaks: the HTTP faces, over FastAPI and Starlette."""
