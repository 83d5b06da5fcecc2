"""Intervals, tests and comparisons of scores, and verdicts in words."""
