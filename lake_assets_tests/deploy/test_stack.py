"""The CloudFormation stack of `deploy/aws/`: what moto makes of it, and files that go through it to silver.

moto ignores resources that it does not know, without an error, so the resources that it has made are compared with
those of the template. Not here: cfn-lint (`make lint`), Glue in every case (`test_glue_end_to_end.py`), events and
queues (`bronze/scan/`).
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.onboarding.endpoint_import.documents import read_documents
from lake_assets.onboarding.endpoint_import.lake_section import draft_of
from lake_assets.onboarding.endpoint_plan.setting_differences import differences, target_of
from lake_assets_tests.deploy.stack_policies import policies
from lake_assets_tests.helpers.lakes.small_lakes import TINY
from lake_assets_tests.helpers.processes.child import PATIENCE, ROOT, environment, output_of, run_python
from lake_assets_tests.helpers.servers.glue import glue_server, tables_in_glue
from lake_assets_tests.helpers.servers.s3 import ACCESS, client, credentials

pytestmark = pytest.mark.filterwarnings("ignore:Tried to parse .* not supported by moto")

STACK = ROOT / "deploy/aws/stack.yaml"
ACCOUNT = "123456789012"
PARAMETERS = {
    "Image": f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/lake:1",
    "SourceDatabase": "shop",
    "SourceSecretArn": f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:shop",
    "TableMappings": "{}",
}
UNKNOWN_TO_MOTO = {
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::DMS::Endpoint",
    "AWS::DMS::ReplicationInstance",
    "AWS::DMS::ReplicationSubnetGroup",
    "AWS::DMS::ReplicationTask",
    "AWS::EMRServerless::Application",
    "AWS::Glue::Database",
    "AWS::Logs::MetricFilter",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::Subscription",
    "AWS::SecretsManager::Secret",
    "AWS::SQS::QueuePolicy",
}
FILES = {
    "LOAD00000001.csv": [
        "Op,change_seq,commit_ts,id,status,total",
        "I,,2026-11-01 10:00:00.000000,1,open,10.00",
    ],
    "20261101-100200000.csv": [
        "Op,change_seq,commit_ts,id,status,total,BI_id",
        "U,20261101100100000000000000000000001,2026-11-01 10:01:00.000000,1,paid,10.00,1",
        "I,20261101100100000000000000000000002,2026-11-01 10:01:00.000000,2,open,3.50,",
    ],
}


class _Loader(yaml.SafeLoader):
    """Reads CloudFormation's short functions as their arguments."""


_Loader.add_multi_constructor(
    "!",
    lambda loader, _, node: (
        loader.construct_scalar(node)
        if isinstance(node, yaml.ScalarNode)
        else loader.construct_sequence(node, deep=True)
    ),
)


def template() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(STACK.read_text(encoding="utf-8"), _Loader)
    return found


def test_the_template_has_no_alias() -> None:
    """CloudFormation reads none, and no linter says so."""
    tokens = yaml.scan(STACK.read_text(encoding="utf-8"))
    assert not [token for token in tokens if isinstance(token, yaml.AliasToken | yaml.AnchorToken)]


def test_dms_is_set_as_the_lake_expects() -> None:
    """The files' endpoint, the task, the mapping of the guide, and lake.yaml."""
    resources = template()["Resources"]
    target = {"EndpointIdentifier": "files", **resources["FilesTarget"]["Properties"]}
    settings, _ = resources["Task"]["Properties"]["ReplicationTaskSettings"]
    guide = (ROOT / "docs/aws.md").read_text(encoding="utf-8")
    mapping = re.search(r"```json\n(\{\"rules\".*?)```", guide, re.DOTALL)
    assert mapping is not None
    texts = {
        "endpoint": json.dumps({"Endpoints": [target]}),
        "mapping": mapping[1],
        "task": settings.replace("${Before}", ""),
    }
    documents = read_documents(texts)
    names = re.findall(r"\$\{(\w+)\}", (ROOT / "deploy/aws/lake.yaml").read_text(encoding="utf-8"))
    task = "arn:aws:dms:eu-west-1:123456789012:task:LAKE"
    place = f"s3://{target['S3Settings']['BucketName']}/{target['S3Settings']['BucketFolder']}"
    queue = "https://sqs.eu-west-1.amazonaws.com/123456789012/files"
    given = dict.fromkeys(names, "a text of many letters") | dict.fromkeys(
        ("QUEUE_URL", "DEAD_QUEUE_URL"), queue
    )
    given |= {"BRONZE": place, "TASK_ARN": task, "AWS_REGION": "eu-west-1"}
    lake = load_lake(ROOT / "deploy/aws/lake.yaml", environ=given)
    source = lake.sources["shop"]
    described = draft_of(target_of("shop", source, documents), documents)
    assert differences(source, described, documents) == []


def test_each_policy_of_a_role_can_be_linted() -> None:
    """`make lint` gives them to a linter: no function of CloudFormation is left, and every resource is an ARN."""
    found = dict(policies())
    assert {name.partition("_")[0] for name in found} == {
        name
        for name, resource in template()["Resources"].items()
        if resource["Type"] in ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy")
    }
    for document in found.values():
        assert "!" not in json.dumps(document)
        for statement in document["Statement"]:
            resources = statement["Resource"]
            for resource in [resources] if isinstance(resources, str) else resources:
                assert resource == "*" or len(resource.split(":", 5)) == 6


def test_no_bucket_is_open() -> None:
    resources = template()["Resources"]
    policies = {
        found["Properties"]["Bucket"]: found["Properties"]["PolicyDocument"]["Statement"]
        for found in resources.values()
        if found["Type"] == "AWS::S3::BucketPolicy"
    }
    buckets = {name: found for name, found in resources.items() if found["Type"] == "AWS::S3::Bucket"}
    assert buckets.keys() == policies.keys()
    for name, bucket in buckets.items():
        assert all(bucket["Properties"]["PublicAccessBlockConfiguration"].values())
        assert bucket["Properties"]["BucketEncryption"]
        assert bucket["DeletionPolicy"] == "Retain"
        assert [one["Effect"] for one in policies[name] if one["Sid"] == "TlsOnly"] == ["Deny"]


def test_files_move_to_a_class_that_answers_at_once_and_never_expire() -> None:
    """moto makes no lifecycle of a bucket."""
    bronze = template()["Resources"]["Bronze"]["Properties"]
    (condition, archive, _), *others = bronze["LifecycleConfiguration"]["Rules"]
    assert condition == "WithArchive"
    assert archive["Transitions"] == [{"StorageClass": "GLACIER_IR", "TransitionInDays": "ArchiveAfterDays"}]
    assert not any("ExpirationInDays" in rule for rule in (archive, *others))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with glue_server() as address:
        yield address


APPLICATION = f"arn:aws:emr-serverless:us-east-1:{ACCOUNT}:/applications/00abc"
LACKING = {
    "{{resolve:secretsmanager:${DatabasePassword}}}": "a-password",
    "!GetAtt Database.Endpoint.Address": "database.example",
    "!GetAtt JobApplication.Arn": APPLICATION,
    "${JobApplication.Arn}": APPLICATION,
    "!Ref JobApplication}": "an-application}",
}
"""Attributes that moto does not know."""


def for_moto(text: str) -> str:
    """The template without the attributes that moto lacks."""
    for attribute, value in LACKING.items():
        assert attribute in text
        text = text.replace(attribute, value)
    return text


def created(endpoint: str, **changes: str) -> dict[str, str]:
    """The stack's resources that moto has made, by their names in the template, as their ids."""
    ec2 = client("ec2", endpoint)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=f"us-east-1{zone}")[
            "Subnet"
        ]["SubnetId"]
        for n, zone in enumerate("ab")
    ]
    given = {**PARAMETERS, "Vpc": vpc, "Subnets": ",".join(subnets), **changes}
    formation = client("cloudformation", endpoint)
    name = f"stack-{given.get('LakeName', 'lake')}"
    formation.create_stack(
        StackName=name,
        TemplateBody=for_moto(STACK.read_text(encoding="utf-8")),
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    (stack,) = formation.describe_stacks(StackName=name)["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    pages = formation.get_paginator("list_stack_resources").paginate(StackName=name)
    return {
        found["LogicalResourceId"]: found["PhysicalResourceId"]
        for page in pages
        for found in page["StackResourceSummaries"]
        if found["LogicalResourceId"]
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "Stage": "prod",
            "LakeName": "prod",
            "Arrival": "stream",
            "QueueType": "fifo",
            "AlarmEmail": "a@example.com",
            "Jobs": "emr_serverless",
            "ArchiveAfterDays": "90",
            "SupersededFiles": "delete",
        },
    ],
    ids=["dev with files", "prod with a stream"],
)
def test_moto_makes_what_it_knows(endpoint: str, changes: dict[str, str]) -> None:
    made = created(endpoint, **changes)
    left_out = {"files": "WithStream", "stream": "WithFiles"}[changes.get("Arrival", "files")]
    unmet = {left_out, *(set() if changes else {"WithEmail", "WithJobs", "WithDeletion"})}
    wanted = {
        name: resource["Type"]
        for name, resource in template()["Resources"].items()
        if resource.get("Condition") not in unmet
    }
    assert {wanted[name] for name in wanted if name not in made} <= UNKNOWN_TO_MOTO
    assert made.keys() <= wanted.keys()
    s3, queues = client("s3", endpoint), client("sqs", endpoint)
    for name in ("Bronze", "Warehouse", *(["JobFiles"] if changes else [])):
        (rule,) = s3.get_bucket_encryption(Bucket=made[name])["ServerSideEncryptionConfiguration"]["Rules"]
        assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    found = queues.get_queue_attributes(QueueUrl=made["Files"], AttributeNames=["All"])["Attributes"]
    assert found["MessageRetentionPeriod"] == str(14 * 86400)
    assert found["VisibilityTimeout"] == "3600"
    assert json.loads(found["RedrivePolicy"])["deadLetterTargetArn"].endswith(
        made["DeadFiles"].rsplit("/", 1)[-1]
    )
    assert (found.get("FifoQueue") == "true") is (changes.get("QueueType") == "fifo")
    if changes.get("Arrival") == "stream":
        stream = client("kinesis", endpoint).describe_stream_summary(StreamName=made["Changes"])
        assert stream["StreamDescriptionSummary"]["RetentionPeriodHours"] == 168


def lake_file(folder: Path, endpoint: str, made: dict[str, str]) -> Path:
    """The lake.yaml of `deploy/aws/` for what the stack has made, with moto's addresses."""
    text = (ROOT / "deploy/aws/lake.yaml").read_text(encoding="utf-8")
    values = {
        "AWS_REGION": ACCESS["region"],
        "BRONZE": f"s3://{made['Bronze']}/shop",
        "WAREHOUSE": f"s3://{made['Warehouse']}",
        "LAKE_MASK_SALT": "a salt of sixteen letters",
        "QUEUE_URL": made["Files"],
        "DEAD_QUEUE_URL": made["DeadFiles"],
        "TASK_ARN": f"arn:aws:dms:us-east-1:{ACCOUNT}:task:ABC",
    }
    for name, value in values.items():
        assert f"${{{name}}}" in text, f"the stack sets {name}, and lake.yaml does not use it"
        text = text.replace(f"${{{name}}}", value)
    lake: dict[str, Any] = yaml.safe_load(text)
    keys = {name: ACCESS[name] for name in ("access_key_id", "secret_access_key")}
    lake["catalog"] |= tables_in_glue(endpoint, lake["catalog"]["warehouse"])
    (shop,) = lake["sources"].values()
    shop["s3"] |= {"endpoint": endpoint, "path_style": True, **keys}
    shop["notifications"] |= {"endpoint": endpoint, **keys}
    # A run for each batch, which ends by itself.
    del lake["automation"]
    lake["spark"] = {"master": "local[2]", "conf": TINY}
    path = folder / "lake.yaml"
    path.write_text(yaml.safe_dump(lake, sort_keys=False), encoding="utf-8")
    load_lake(path)
    return path


@pytest.mark.slow
def test_files_go_through_the_stack_to_silver(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = created(endpoint, LakeName="whole")
    s3, queues = client("s3", endpoint), client("sqs", endpoint)
    # What moto leaves out of the stack.
    s3.put_bucket_notification_configuration(
        Bucket=made["Bronze"], NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    path = lake_file(tmp_path, endpoint, made)
    for name, lines in FILES.items():
        body = "".join(f"{line}\n" for line in lines).encode()
        s3.put_object(Bucket=made["Bronze"], Key=f"shop/public/orders/{name}", Body=body)

    def waiting() -> int:
        attributes = queues.get_queue_attributes(
            QueueUrl=made["Files"], AttributeNames=["ApproximateNumberOfMessages"]
        )["Attributes"]
        return int(attributes["ApproximateNumberOfMessages"])

    assert waiting() == len(FILES), "EventBridge has passed the events on"
    for name, value in credentials(endpoint).items():
        monkeypatch.setenv(name, value)
    output_of(
        run_python(
            "-m",
            "lake_assets_tests.helpers.orchestration.sensor_run",
            path,
            timeout=PATIENCE,
            env=environment(),
        )
    )
    assert waiting() == 0
    table = open_catalog(load_lake(path).catalog).load_table("silver_shop.orders")
    rows = table.scan().to_arrow().select(["id", "status"]).sort_by("id").to_pylist()
    assert rows == [{"id": 1, "status": "paid"}, {"id": 2, "status": "open"}]
