"""Which camera a command is to try: one of the configuration by its name, or a URL with its options."""

from pathlib import Path

from edge_agent.commands.typed import Settings, given, typed_credentials, typed_source, usage_errors
from edge_agent.config import CameraConfig
from edge_agent.config.keys import camera_from
from edge_agent.errors import UsageError

TRIED = "camera"


def tried_camera(
    settings: Settings,
    camera: str,
    user: str | None,
    password: str | None,
    password_file: str | None,
    **options: object,
) -> tuple[CameraConfig, str | None]:
    """Give the camera that was named, and its password.

    What contains a slash is a URL or path; `options` are keys of a camera's table, None where not given.
    A camera of the configuration takes none of them: it is tried as it is.
    """
    from edge_agent.config.file import load_camera

    options = given(**options)
    if "/" in camera:
        source = typed_source(camera, credentials=user is None)
        user, password = typed_credentials(source, user, password, password_file)
        with usage_errors():
            return camera_from(TRIED, options | given(url=source.url, user=user), Path.cwd()), password
    if options or user or password or password_file:
        raise UsageError(
            "a camera of the configuration is tried with its own options: set-camera changes them"
        )
    return load_camera(settings.config, camera)
