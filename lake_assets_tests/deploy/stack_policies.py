"""`python -m lake_assets_tests.deploy.stack_policies FOLDER`: the policies of the stack's roles, a JSON file each, with
examples in place of what CloudFormation fills in, for a linter of policies.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from lake_assets_tests.helpers.processes.child import ROOT

STACK = ROOT / "deploy/aws/stack.yaml"
PLACE = "us-east-1:123456789012"
ARNS = {
    "AWS::DMS::ReplicationTask": f"arn:aws:dms:{PLACE}:task:ABC",
    "AWS::ECS::Cluster": f"arn:aws:ecs:{PLACE}:cluster/lake",
    "AWS::EMRServerless::Application": f"arn:aws:emr-serverless:{PLACE}:/applications/00abc",
    "AWS::IAM::Role": "arn:aws:iam::123456789012:role/lake",
    "AWS::KMS::Key": f"arn:aws:kms:{PLACE}:key/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
    "AWS::Kinesis::Stream": f"arn:aws:kinesis:{PLACE}:stream/lake",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{PLACE}:log-group:lake:*",
    "AWS::S3::Bucket": "arn:aws:s3:::lake",
    "AWS::SNS::Topic": f"arn:aws:sns:{PLACE}:lake",
    "AWS::SQS::Queue": f"arn:aws:sqs:{PLACE}:lake",
    "AWS::SecretsManager::Secret": f"arn:aws:secretsmanager:{PLACE}:secret:lake",
}
ARNS_AS_REFERENCES = ("AWS::DMS::ReplicationTask", "AWS::SecretsManager::Secret")
PSEUDO = {"AWS::Partition": "aws", "AWS::Region": "us-east-1", "AWS::AccountId": "123456789012"}
NEWER = re.compile(r"emr-serverless:(\w+Sessions?|GetSessionEndpoint)")
"""Actions that parliament 1.6.4 does not know; cfn-lint knows them. Its own setting for that has no effect."""
LEFT_OUT = object()


class Loader(yaml.SafeLoader):
    """Reads CloudFormation's short functions as `{"!Name": arguments}`."""


def _function(loader: yaml.SafeLoader, name: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        return {f"!{name}": loader.construct_scalar(node)}
    assert isinstance(node, yaml.SequenceNode)
    return {f"!{name}": loader.construct_sequence(node, deep=True)}


Loader.add_multi_constructor("!", _function)


def policies() -> Iterator[tuple[str, dict[str, Any]]]:
    """The policies of roles, by names."""
    stack = yaml.load(STACK.read_text(encoding="utf-8"), Loader)
    resources, parameters = stack["Resources"], stack["Parameters"]
    for name, resource in resources.items():
        own = resource.get("Properties", {})
        found = [own["PolicyDocument"]] if resource["Type"] == "AWS::IAM::ManagedPolicy" else []
        found += [one["PolicyDocument"] for one in own.get("Policies", ())]
        for number, document in enumerate(found):
            yield f"{name}_{number}", _filled(document, resources, parameters)


def _filled(value: Any, resources: dict[str, Any], parameters: dict[str, Any]) -> Any:
    if isinstance(value, list):
        every = [_filled(each, resources, parameters) for each in value]
        return [each for each in every if each is not LEFT_OUT and not NEWER.fullmatch(str(each))]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and next(iter(value)).startswith("!"):
        [(name, arguments)] = value.items()
        return _called(name, arguments, resources, parameters)
    return {key: _filled(each, resources, parameters) for key, each in value.items()}


def _called(name: str, arguments: Any, resources: dict[str, Any], parameters: dict[str, Any]) -> Any:
    if name == "!If":
        return _filled(arguments[1], resources, parameters)  # what is conditional is there
    if name == "!Sub":
        text: str = arguments
        while "${" in text:
            before, _, rest = text.partition("${")
            inner, _, after = rest.partition("}")
            text = before + _named(inner, resources, parameters) + after
        return text
    assert name in ("!Ref", "!GetAtt"), name
    return LEFT_OUT if arguments == "AWS::NoValue" else _named(arguments, resources, parameters)


def _named(name: str, resources: dict[str, Any], parameters: dict[str, Any]) -> str:
    """An example of a reference's value."""
    logical, _, attribute = name.partition(".")
    if name in PSEUDO:
        return PSEUDO[name]
    if name in parameters:
        secret = ARNS["AWS::SecretsManager::Secret"]
        return secret if name.endswith("SecretArn") else str(parameters[name].get("Default") or "given")
    kind = resources[logical]["Type"]
    if attribute == "Arn" or kind in ARNS_AS_REFERENCES:
        return ARNS[kind]
    return logical.lower()


def main(folder: Path) -> None:
    """Writes the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in policies():
        (folder / f"{name}.json").write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
