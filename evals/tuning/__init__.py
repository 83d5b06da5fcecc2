"""Tuning of fusion weights: the surface over all weights, and what a choice of weights is worth on new queries."""
