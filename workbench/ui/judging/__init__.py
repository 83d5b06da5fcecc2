"""The parts of the Judge page."""
