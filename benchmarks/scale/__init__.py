"""What a large deployment costs, and what breaks first: measured costs of single steps, replayed by a simulation."""
