"""Variants over labelled queries: planned into few leg runs, run once, fused as arrays, and stored."""
