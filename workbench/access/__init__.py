"""Who may come in and do what where the workbench is served to a team: sign-in, roles, and the store of each role."""
