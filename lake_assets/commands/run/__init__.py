"""Commands that work: `dev`, `maintain`, `spark`."""
