"""A round: scan the bucket, plan, apply, compute marts, look after tables. Without Dagster."""
