"""Commands that set up and check a lake: `init`, `validate`, `schema`, `advise`."""
