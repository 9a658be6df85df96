"""A round without Dagster: scan the bucket, plan, apply, compute marts, maintain tables."""
