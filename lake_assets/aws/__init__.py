"""What services of AWS say, beside the bucket itself (`bronze/object_store.py`).

A module for each service. Not here: what their answers mean for a table.
"""
