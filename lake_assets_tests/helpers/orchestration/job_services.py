"""EMR Serverless and Glue on this machine: moto's server, which runs each job by `spark-submit`.

moto itself takes a job and runs nothing. Here: what the services do with a job's parameters. Not here: the project that
a job works on, packaging it.
"""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lake_assets_tests.helpers.processes.child import ROOT, java_options, plain_environment
from lake_assets_tests.helpers.servers.s3 import ACCESS, client, credentials, s3_server
from lake_assets_tests.helpers.servers.spark_cluster import SPARK_HOME

BUCKET = "lake-jobs"
ROLE = "arn:aws:iam::123456789012:role/lake-jobs"
DRIVER, ARCHIVES = "spark.emr-serverless.driverEnv.", "spark.archives"


@dataclass
class JobServices:
    """The services, and the jobs that they have got."""

    endpoint: str
    prepare: Callable[[Path], None]
    """Fills a job's working directory, as unpacking its environment does."""
    application: str = ""
    """Of EMR Serverless."""
    jobs: list[dict[str, Any]] = field(default_factory=list)
    """The parameters of each job."""
    logs: list[Path] = field(default_factory=list)
    """What each job has printed."""
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    """By the id of a job run."""

    def section(self, **service: Any) -> dict[str, Any]:
        """The section `jobs` of lake.yaml."""
        return {"messages": f"s3://{BUCKET}", "endpoint": self.endpoint, **ACCESS, **service}

    def emr_serverless(self, conf: Mapping[str, str], **sizes: Any) -> dict[str, Any]:
        """The section of EMR Serverless in `jobs`."""
        place = f"s3://{BUCKET}/programs"
        return {
            "application": self.application,
            "role": ROLE,
            "program": f"{place}/job.py",
            "environment": f"{place}/environment.tar.gz",
            "conf": {"spark.master": "local[2]", **conf},
            **sizes,
        }

    def submit(self, run: str, program: str, conf: Mapping[str, str], arguments: list[str]) -> None:
        """Starts a job in a working directory of its own, with its program from S3."""
        folder = Path(tempfile.mkdtemp(prefix="job-"))
        bucket, _, key = program.removeprefix("s3://").partition("/")
        client("s3", self.endpoint).download_file(bucket, key, str(folder / "job.py"))
        self.prepare(folder)
        settings = {name: value for name, value in conf.items() if not name.startswith((DRIVER, ARCHIVES))}
        variables = {
            name.removeprefix(DRIVER): value for name, value in conf.items() if name.startswith(DRIVER)
        }
        given = [f"--conf={name}={value}" for name, value in settings.items()]
        # What is not packaged is not there.
        env = {"PYSPARK_PYTHON": sys.executable, **plain_environment(), "SPARK_SUBMIT_OPTS": java_options()}
        env |= {**credentials(self.endpoint), **variables}
        self.logs.append(folder / "log")
        with self.logs[-1].open("wb") as log:
            self.processes[run] = subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-submit", *given, "job.py", *arguments],
                cwd=folder,
                env=env,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def state(self, run: str, running: str, succeeded: str, failed: str) -> str:
        """The word for a job's state."""
        code = self.processes[run].poll()
        return running if code is None else failed if code else succeeded

    def printed(self) -> str:
        """What all jobs have printed, for a test that fails."""
        return "\n".join(log.read_text(errors="replace")[-5_000:] for log in self.logs)


@contextmanager
def job_services(prepare: Callable[[Path], None]) -> Iterator[JobServices]:
    """Within the block, with an application of EMR Serverless, and the bucket."""
    with s3_server() as endpoint, ExitStack() as stack:
        services = JobServices(endpoint, prepare)
        for patched in (*_emr_serverless(services), *_glue(services)):
            stack.enter_context(patched)
        client("s3", endpoint).create_bucket(Bucket=BUCKET)
        made = client("emr-serverless", endpoint).create_application(
            name="lake", releaseLabel="emr-7.9.0", type="SPARK", clientToken="lake"
        )
        services.application = made["applicationId"]
        yield services
        for process in services.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait(30)


def python_of_tests(folder: Path) -> None:
    """Makes `environment/bin/python` the Python of the tests with this checkout, in place of a packaged one."""
    program = folder / "environment/bin/python"
    program.parent.mkdir(parents=True)
    path = f"PYTHONPATH={shlex.quote(str(ROOT))}:$PYTHONPATH"
    program.write_text(f'#!/bin/sh\n{path} exec {shlex.quote(sys.executable)} "$@"\n')
    program.chmod(0o755)


def _emr_serverless(services: JobServices) -> list[Any]:
    from moto.emrserverless.models import EMRServerlessBackend
    from moto.emrserverless.responses import EMRServerlessResponse
    from moto.emrserverless.urls import url_paths

    plain = EMRServerlessBackend.start_job_run, EMRServerlessBackend.get_job_run

    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        run: Any = plain[0](self, *args, **kwargs)
        submit = run.job_driver["sparkSubmit"]
        services.jobs.append({"name": run.name, **submit})
        words = shlex.split(submit["sparkSubmitParameters"])
        conf = dict(word.split("=", 1) for word in words if word != "--conf")
        services.submit(run.id, submit["entryPoint"], conf, submit.get("entryPointArguments", []))
        return run

    def get(self: Any, *args: Any, **kwargs: Any) -> Any:
        run = plain[1](self, *args, **kwargs)
        run.state = services.state(run.id, "RUNNING", "SUCCESS", "FAILED")
        return run

    def dashboard(request: Any, full_url: str, headers: Any) -> tuple[int, dict[str, str], str]:
        return 200, {}, '{"url": "https://dashboard.example"}'

    assert EMRServerlessResponse is not None
    path = "{0}/applications/(?P<applicationId>[^/]+)/jobruns/(?P<jobRunId>[^/]+)/dashboard$"
    return [
        patch.object(EMRServerlessBackend, "start_job_run", start),
        patch.object(EMRServerlessBackend, "get_job_run", get),
        patch.dict(url_paths, {path: dashboard}),
    ]


def _glue(services: JobServices) -> list[Any]:
    from moto.glue.models import FakeJobRun, GlueBackend

    plain = GlueBackend.start_job_run, FakeJobRun.as_dict

    def start(self: Any, name: str, arguments: Any, *args: Any, **kwargs: Any) -> Any:
        run = plain[0](self, name, arguments, *args, **kwargs)
        job = self.get_job(name)
        given = {**(job.default_arguments or {}), **(arguments or {})}
        asked = job.get_job_run(run).as_dict()
        services.jobs.append({**asked, "Arguments": given})
        conf = dict([given.pop("--conf").split("=", 1)]) if "--conf" in given else {}
        flat = [word for pair in given.items() for word in pair]
        conf |= {"spark.master": "local[2]"}
        services.submit(run, job.command["ScriptLocation"], conf, flat)
        return run

    def as_dict(self: Any) -> Any:
        found = plain[1](self)
        if found["Id"] in services.processes:
            found["JobRunState"] = services.state(found["Id"], "RUNNING", "SUCCEEDED", "FAILED")
        return found

    return [patch.object(GlueBackend, "start_job_run", start), patch.object(FakeJobRun, "as_dict", as_dict)]
