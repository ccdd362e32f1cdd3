"""Which pictures of an inter-coded stream can be trusted. Pure."""


class KeyframeGate:
    """Closed until a keyframe, and again from any damage to the next keyframe.

    A picture that builds on something that was lost or damaged looks grey or smeared, so none is let
    through. Pictures that belong before the keyframe at which the gate opened (the leading pictures of an
    open group) may lack their references: those are left out without closing it.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.was_damaged = False
        """Why it is closed: damage, rather than no keyframe yet."""
        self._opened_at_pts: int | None = None

    def wants(self, pts: int | None, *, is_keyframe: bool, is_corrupt: bool) -> bool:
        """Decide whether a packet is worth decoding."""
        if is_corrupt:
            self.damaged()
            return False
        if is_keyframe and not self.is_open:
            self.is_open = True
            self._opened_at_pts = pts
        return self.is_open

    def passes(self, pts: int | None, *, is_corrupt: bool) -> bool:
        """Decide whether a decoded picture may be shown."""
        if not self.is_open:
            return False
        leads = pts is not None and self._opened_at_pts is not None and pts < self._opened_at_pts
        if is_corrupt and not leads:
            self.damaged()
        return not is_corrupt

    def damaged(self) -> None:
        """Close after a loss, or a packet that did not decode."""
        self.is_open = False
        self.was_damaged = True
