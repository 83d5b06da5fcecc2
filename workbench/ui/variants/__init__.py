"""The parts of the Variants page."""
