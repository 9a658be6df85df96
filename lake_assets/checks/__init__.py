"""The checks of tables that are evaluated on a schedule or by hand, beside those of each batch.

Not here: Dagster (`orchestration/checks/`), what lake.yaml declares (`config/checks.py`).
"""
