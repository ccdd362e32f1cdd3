"""Keep the contract of a release: its descriptors as proto/released/VERSION.binpb, for good.

`make contract`, once the version in pyproject.toml is the release's; the file is committed with the release.
The tests in tests/wire/versions speak every contract that is kept there.
"""

import sys
import tempfile
import tomllib
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parent.parent
RELEASED = ROOT / "proto" / "released"


def compiled() -> bytes:
    """Compile the contract as it is now; exits with protoc's complaint where it does not."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.binpb"
        sources = sorted(map(str, (ROOT / "proto" / "camera_ai").glob("*.proto")))
        options = [f"-I{ROOT / 'proto'}", "--include_imports", f"--descriptor_set_out={out}"]
        if protoc.main(["protoc", *options, *sources]) != 0:
            sys.exit("protoc failed; its message is above")
        return out.read_bytes()


def main() -> None:
    """Write the file, unless the version has been released with another contract."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    path = RELEASED / f"{version}.binpb"
    contract = compiled()
    if path.exists() and path.read_bytes() != contract:
        sys.exit(f"{path.relative_to(ROOT)}: {version} is released with another contract: raise the version")
    RELEASED.mkdir(exist_ok=True)
    path.write_bytes(contract)
    print(f"{path.relative_to(ROOT)}: {len(contract)} bytes")


if __name__ == "__main__":
    main()
