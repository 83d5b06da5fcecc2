"""Where collections live: the server, the schema, what goes in and what comes out."""
