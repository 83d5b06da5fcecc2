"""The pages, one file each, with `render(store)`. They draw; what they show is worked out elsewhere."""
