"""Commands that report: `status`, `latency`, `batches`, `metrics`."""
