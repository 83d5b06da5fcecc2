"""The pages, a package each. `registry` alone knows all of them; they do not import one another."""
