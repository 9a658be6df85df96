"""Commands that set up and check a lake: `init`, `import-endpoint`, `validate`, `schema`, `advise`."""
