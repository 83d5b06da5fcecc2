"""Evaluating variants and runs over one split: made, scored, compared, and shown on one board."""
