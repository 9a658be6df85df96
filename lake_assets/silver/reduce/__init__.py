"""From a batch's changes to the edit of its table."""
