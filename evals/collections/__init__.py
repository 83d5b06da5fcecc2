"""Collections as a whole: loaded from a source, read again by a newer reader, described, exported."""
