"""The values of `deploy/kubernetes/` for Dagster's Helm chart.

The chart is no package that a test could get. Its values become Dagster's instance, so they are checked by the classes
of Dagster that read it, and against the instance of `deploy/aws/`.
"""

import importlib
import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._config import process_config, resolve_to_config_type
from dagster._core.run_coordinator import QueuedRunCoordinator
from dagster_aws.s3.compute_log_manager import S3ComputeLogManager
from dagster_k8s import K8sRunLauncher
from packaging.version import Version

from lake_assets_tests.helpers.processes.child import ROOT

Values = dict[str, Any]
DOCKERFILE = ROOT / "deploy/aws/Dockerfile"


@pytest.fixture(scope="module")
def values() -> Values:
    found: Values = yaml.safe_load((ROOT / "deploy/kubernetes/values.yaml").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def instance() -> Values:
    """The dagster.yaml of `deploy/aws/`."""
    found: Values = yaml.safe_load((ROOT / "deploy/aws/dagster.yaml").read_text(encoding="utf-8"))
    return found


KEPT = "applyLimitPerUniqueValue"
"""The one key of Dagster's own in this spelling."""


def as_dagster_writes(value: Any) -> Any:
    """The value with the keys that the chart's templates make of it."""
    if isinstance(value, dict):
        return {_key(name): as_dagster_writes(each) for name, each in value.items()}
    return [as_dagster_writes(each) for each in value] if isinstance(value, list) else value


def _key(name: str) -> str:
    return name if name == KEPT else re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def test_the_queue_is_that_of_the_other_deployment(values: Values, instance: Values) -> None:
    daemon = as_dagster_writes(values["dagsterDaemon"])
    queue = daemon["run_coordinator"]["config"]["queued_run_coordinator"]
    assert queue == instance["run_queue"]
    assert_fits(QueuedRunCoordinator, queue)
    for name in ("sensors", "schedules", "run_monitoring"):
        assert daemon[name] == instance[name]


def test_history_is_kept_as_long(values: Values, instance: Values) -> None:
    kept = as_dagster_writes(values["retention"])
    assert kept.pop("enabled") is True
    assert kept.pop("auto_materialize")["purge_after_days"].items() >= (
        instance["retention"]["auto_materialize"]["purge_after_days"].items()
    )
    assert kept == {name: instance["retention"][name] for name in ("sensor", "schedule")}
    database = instance["storage"]["postgres"]["postgres_db"]
    own = values["postgresql"]
    assert (own["postgresqlScheme"], own["postgresqlParams"]) == (database["scheme"], database["params"])
    assert own["postgresqlUsername"] == database["username"]


def test_runs_have_what_the_launcher_takes(values: Values) -> None:
    launcher = as_dagster_writes(values["runLauncher"]["config"]["k8sRunLauncher"])
    # The chart passes names of secrets as texts, and adds what it knows itself.
    launcher["env_secrets"] = [secret["name"] for secret in launcher["env_secrets"]]
    known = {"service_account_name": "lake", "instance_config_map": "m", "dagster_home": "/d"}
    assert_fits(K8sRunLauncher, launcher | known)
    logs = as_dagster_writes(values["computeLogManager"]["config"]["s3ComputeLogManager"])
    assert_fits(S3ComputeLogManager, logs)


def test_every_pod_has_the_image_and_the_project(values: Values) -> None:
    (code,) = values["dagster-user-deployments"]["deployments"]
    images = [code["image"], values["dagsterWebserver"]["image"], values["dagsterDaemon"]["image"]]
    assert images == [images[0]] * 3
    assert code["includeConfigInLaunchedRuns"] == {"enabled": True}
    (volume,), (mount,) = code["volumes"], code["volumeMounts"]
    assert volume["name"] == mount["name"]
    assert Path(code["env"]["LAKE_CONFIG"]) == Path(mount["mountPath"], "lake.yaml")
    flag, module = code["dagsterApiGrpcArgs"]
    assert flag == "--python-module"
    assert module in (ROOT / "workspace.yaml").read_text(encoding="utf-8")
    assert importlib.util.find_spec(module) is not None
    extras = re.search(r"'\.\[([a-z,]+)\]'", DOCKERFILE.read_text(encoding="utf-8"))
    assert extras is not None
    assert {"aws", "kubernetes"} <= set(extras[1].split(","))


def test_the_chart_is_of_the_dagster_that_is_installed() -> None:
    text = (ROOT / "deploy/kubernetes/values.yaml").read_text(encoding="utf-8")
    (version,) = re.findall(r"--version (\S+)", text)
    assert Version(version) == Version(dg.__version__)


def assert_fits(kind: Any, config: Values) -> None:
    """The class takes this configuration, and knows each key."""
    found = process_config(resolve_to_config_type(kind.config_type()), config)
    assert found.success, found.errors
