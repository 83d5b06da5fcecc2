"""The embedded PostgreSQL: its programs, its data folder, its process and the supervisor that stops it."""
