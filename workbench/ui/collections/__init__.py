"""The parts of the Collections page."""
