"""Snowflake shows the tables of silver and gold."""
