"""Why a source could not be opened or ended, as one clear line without any password."""

from edge_agent.errors import AgentError, one_line
from edge_agent.state import CameraState


class CaptureError(AgentError):
    """A camera, device or file could not be opened, or ended; `state` is what becomes of the camera."""

    def __init__(self, text: str, state: CameraState = CameraState.OFFLINE, *, is_away: bool = False) -> None:
        super().__init__(one_line(text))  # a part of it may be what a camera sent
        self.state = state
        self.is_away = is_away
        """No connection to it could be made: what causes that may be away for others, too."""
