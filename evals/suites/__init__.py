"""Suites as TOML: collections, variants, grids, tuning, a gate; carried out, and told to a build server."""
