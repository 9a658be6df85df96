"""The strategies that write a batch, the commit that has its position, and the row-count check."""
