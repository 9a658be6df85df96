"""Commands that begin and check a lake: `init`, `import-endpoint`, `validate`, `schema`, `advise`."""
