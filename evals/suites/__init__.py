"""Suites as TOML: collections, variants, grids, tuning, a gate; run, and reported to a build server."""
