"""Fuzzing of everything that reads what a stranger wrote: `python -m tests.drills.fuzz --help`."""
