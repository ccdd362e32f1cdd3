#!/bin/sh
# Checks for what pip cannot install; says the one line that does, and exits 2, where something is missing.
python=${1:-python3}
missing=
command -v make >/dev/null || missing="$missing make"
command -v cc >/dev/null || command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
command -v c++ >/dev/null || command -v g++ >/dev/null || missing="$missing g++"
if ! command -v "$python" >/dev/null; then
    missing="$missing python3 python3-venv python3-dev"
else
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "found $("$python" --version), expected Python 3.11 or later: make PYTHON=/path/to/python3" >&2
        exit 2
    }
    "$python" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
    "$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
        || missing="$missing python3-dev"
fi
[ -z "$missing" ] && exit 0
echo "missing:$missing" >&2
echo "install with: sudo apt-get update && sudo apt-get install -y$missing" >&2
exit 2
