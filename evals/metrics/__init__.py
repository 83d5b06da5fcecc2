"""Measures, and the scores of rankings by them."""
