"""The rows of tables that keep the past: histories and soft deletes."""
