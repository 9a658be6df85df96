"""The hours, days, weeks or months of marts, and which of them have changed."""
