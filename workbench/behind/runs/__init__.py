"""Behind the Runs page."""
