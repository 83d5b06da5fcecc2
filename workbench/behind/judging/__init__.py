"""Behind the Judge page."""
