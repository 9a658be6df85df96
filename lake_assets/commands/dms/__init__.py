"""Commands about the documents of AWS DMS: `import-endpoint`, `dms plan` and `dms diff`."""
