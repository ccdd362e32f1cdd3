"""Small ONNX models that are really run."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from numpy.typing import NDArray

SaveModel = Callable[..., Path]


@pytest.fixture
def save_model(tmp_path: Path) -> SaveModel:
    """Save a graph in ONNX's text form, with constants by name, as a model file."""

    def save(
        graph: str,
        constants: Mapping[str, NDArray[np.generic]] | None = None,
        metadata: Mapping[str, str] | None = None,
        name: str = "model.onnx",
    ) -> Path:
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> {graph}')
        for constant, value in (constants or {}).items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, constant))
        onnx.helper.set_model_props(model, dict(metadata or {}))
        onnx.checker.check_model(model, full_check=True)
        path = tmp_path / name
        onnx.save(model, path)
        return path

    return save
