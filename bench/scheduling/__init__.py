"""The scheduling simulator: the product's own line before workers that exist only on paper."""
