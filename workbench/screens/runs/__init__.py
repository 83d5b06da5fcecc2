"""The page Runs: kept runs, one of them opened, and ways to make one."""
