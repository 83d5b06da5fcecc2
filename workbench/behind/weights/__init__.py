"""Behind the weight surface, of the page and of the fusion cell."""
