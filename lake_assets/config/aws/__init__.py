"""The access to AWS, and references to values in AWS Secrets Manager."""
