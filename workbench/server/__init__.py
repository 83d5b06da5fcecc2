"""Serving the workbench: health, uploads, where requests come from, sign-in, roles, logs."""
