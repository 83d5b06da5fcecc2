"""Behind the search page, and of use to others: finding, marking what was found, what labels say of it."""
