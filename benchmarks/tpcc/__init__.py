"""A mix of transactions over eight tables, shaped as TPC-C's, beside a textbook MERGE of each table."""
