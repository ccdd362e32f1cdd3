"""What a server keeps of its gateways' records, as its operator is told."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.conftest import script


def listed(data: Path, *options: str) -> list[dict[str, Any]]:
    """Give the records of a data directory in the order of their making; none where it has no file."""
    command = [script("central-server"), "records", "list", "--data", str(data), "--json", "--limit", "10000"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]
