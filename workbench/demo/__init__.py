"""The demo for stakeholders, without its page: its own database role, its answers, its reasons in plain words."""
