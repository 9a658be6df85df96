"""The hours, days, weeks and months that the partitions of marts are."""
