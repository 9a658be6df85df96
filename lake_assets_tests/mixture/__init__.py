"""Batches, marts, maintenance, expiry and erasures at random, while others read every table."""
