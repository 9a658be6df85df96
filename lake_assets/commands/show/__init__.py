"""Commands that report: `status`, `latency`."""
