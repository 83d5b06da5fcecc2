"""The evaluation harness: labelled collections in, honest scores out. Knows nothing of screens."""
