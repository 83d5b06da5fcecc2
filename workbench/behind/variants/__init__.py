"""Behind the Variants page."""
