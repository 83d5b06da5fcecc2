"""The page Collections: what there is, what is in it, and all that brings something in."""
