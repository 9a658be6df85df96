"""The models of `lake.yaml`: every key, its default and its rules.

A module for each part of the file. Not here: reading the file and the environment (`config_file.py`), or using a
setting.
"""

from lake_assets.config.automation import ContinuousConfig, MaintenanceConfig
from lake_assets.config.aws.access import AwsAccess, SecretsConfig
from lake_assets.config.aws.listing import NotificationsConfig
from lake_assets.config.aws.streams import KafkaConfig, KinesisConfig, StreamConfig
from lake_assets.config.base import (
    UNDECIDED,
    Duration,
    Mistake,
    Mistakes,
    Model,
    did_you_mean,
    parse_duration,
)
from lake_assets.config.checks import QuarantineGrowth, Reconcile, TableCheck
from lake_assets.config.columns import REDACTED, Column, Mask, parse_column
from lake_assets.config.dms import LANDED, DmsSettings, DmsTask, S3Config
from lake_assets.config.dms_rules import has_operation_in_cdc
from lake_assets.config.evolution import EarlierLayout, Policy, QuarantineLimits, SchemaChanges
from lake_assets.config.lake_config import (
    AutomationConfig,
    CatalogConfig,
    GoldConfig,
    LakeConfig,
)
from lake_assets.config.outputs.warehouses import SnowflakeConfig
from lake_assets.config.source import ConsistentCut, SourceConfig
from lake_assets.config.spark import SparkConfig
from lake_assets.config.tables import (
    FURTHER_SHAPES,
    ICEBERG_COLUMNS,
    KEYED_MODES,
    LOGS,
    SHAPE_COLUMNS,
    SHAPE_COMMENTS,
    Freshness,
    FullLoadComplete,
    Mode,
    OnVanished,
    TableConfig,
    name_mistake,
)
from lake_assets.folder_rule import FolderRule
from lake_assets.table_name import TableName, is_called, table_mistake, table_text
