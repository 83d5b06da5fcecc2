"""Tests that prove a promise by taking long: `python -m tests.drills --help`."""
