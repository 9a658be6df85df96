"""The program of the lake's jobs on EMR Serverless and Glue, as `lake-assets package` copies it.

Here: finding the project. Not here: the work (`orchestration/jobs/job_program.py`).
"""

import os
import shutil
import sys
from pathlib import Path

if __name__ == "__main__":
    if Path("project.zip").exists():  # of a job of Glue
        shutil.unpack_archive("project.zip", "project")
        sys.path.insert(0, "project")  # which has the lake's package, too
        os.environ.setdefault("LAKE_CONFIG", "project/lake.yaml")

    from lake_assets.orchestration.jobs.job_program import main

    main()
