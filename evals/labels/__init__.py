"""Labels and query sets: read from files, checked, stored, corrected, and made by a language model."""
