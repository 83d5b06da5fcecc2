"""Fusion weights: all mixes at once as arrays, the surface over them, and tuning that fools nobody."""
