"""The parts of the notebook page."""
