"""A camera's state as one machine: what capture, stream and configuration say, made into one status. Pure."""

from collections.abc import Callable

from edge_agent.state import CameraState, CameraStatus

# What the stream says counts only of a camera that gives pictures: 'offline' is never our own slow upload.
GIVES_PICTURES = frozenset({CameraState.STREAMING})


class CameraStateMachine:
    """Three inputs, one status: disabled, else refused, else slow, else what capture says.

    `on_change` gets the status before and the new one whenever state or reason change. Not for two threads.
    """

    def __init__(
        self,
        on_change: Callable[[CameraStatus, CameraStatus], None],
        state: CameraState = CameraState.CONNECTING,
    ) -> None:
        self.status = CameraStatus.now(state)
        self._captured = self.status
        self._on_change = on_change
        self._refusal = ""
        self._slowness = ""

    def captured(self, status: CameraStatus) -> None:
        """Take what the capture thread says."""
        self._captured = status
        self._tell()

    def refused(self, reason: str) -> None:
        """Take the server's refusal of the stream; an empty reason lifts it."""
        self._refusal = reason
        self._tell()

    def slow(self, reason: str) -> None:
        """Take that frames do not get through in time; an empty reason lifts it."""
        self._slowness = reason
        self._tell()

    def _tell(self) -> None:
        before, now = self.status, self._derived()
        self.status = now
        if (now.state, now.reason) != (before.state, before.reason):
            self._on_change(before, now)

    def _derived(self) -> CameraStatus:
        if self._captured.state not in GIVES_PICTURES:
            return self._captured
        if self._refusal:
            return self.status.then(CameraState.REFUSED, self._refusal)
        if self._slowness:
            return self.status.then(CameraState.SLOW, self._slowness)
        if self.status.since_s > self._captured.since_s:  # it was something else meanwhile
            return self.status.then(self._captured.state, self._captured.reason)
        return self._captured
