"""The work of Dagster's runs in jobs of EMR Serverless or Glue, by Dagster Pipes."""
