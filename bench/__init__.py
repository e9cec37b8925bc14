"""Measures what the product does; no part of the product, and it ships with none of it."""
