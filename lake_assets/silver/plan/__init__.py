"""Which files a table's next batch takes, or why it waits."""
