"""Benchmarks: each module measures one claim against a peer in the same run. `make bench` runs them."""
