"""Which columns a file has, in which order, under the contract of its table."""
