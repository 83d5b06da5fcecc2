"""The demo's screen."""
