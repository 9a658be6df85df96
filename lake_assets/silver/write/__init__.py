"""The strategies that write a batch, the commit that has its position, and the proof by row counts."""
