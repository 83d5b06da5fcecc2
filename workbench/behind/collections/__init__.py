"""Behind the Collections page."""
