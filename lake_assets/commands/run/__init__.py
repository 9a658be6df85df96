"""Commands that run a lake: `sync`, `demo`, `dev`, `maintain`, `spark`."""
