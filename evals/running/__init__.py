"""Variants over labelled queries: planned into few leg runs, asked once, fused, and kept."""
