"""One single-threaded onnxruntime session, and its errors in one line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime

from central_server.errors import DetectorError, OptionError


def open_session(model: Path, providers: Sequence[str]) -> Any:
    """Load an ONNX model for one worker thread.

    One thread in each session and one session for each core: two threads in a session hardly help,
    and sessions that share cores fight.

    Raises:
        OptionError: an execution provider that this onnxruntime does not have.
        DetectorError: the file is missing or no model.

    """
    available = onnxruntime.get_available_providers()
    for provider in providers:
        if provider not in available:
            raise OptionError(f"--provider: found {provider!r}, expected one of {', '.join(available)}")
    if not model.is_file():
        raise DetectorError(f"{model}: no such model file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=list(providers))
    except Exception as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DetectorError(f"{model}: onnxruntime cannot load it: {first_line}") from error
