"""What AWS DMS must be set to for a source of lake.yaml, and how its documents differ from that.

The other direction, from the documents to lake.yaml, is `onboarding/endpoint_import/`, which has the meaning of each
setting.
"""
