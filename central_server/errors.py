"""What can go wrong for reasons outside this program.

ServerError               one clear line for the person at the terminal, exit code 1
├── OptionError           an option that cannot be used; exit code 2
├── DetectorError         a detector or model that does not load
└── ListenError           an address that cannot be listened on
BadImageError             a frame's bytes are no whole picture: the frame's outcome, never the stream's end
└── TooLargeError         more pixels or bytes than the limits allow
BadMessageError           what a client sent is not the message that the contract says: ends the call
"""


class ServerError(Exception):
    """Ends the program with one clear line and exit code 1."""

    exit_code = 1


class OptionError(ServerError):
    """An option's value cannot be used."""

    exit_code = 2


class DetectorError(ServerError):
    """A detector does not exist, or its model does not load or fits no known layout."""


class ListenError(ServerError):
    """The address cannot be listened on."""


class BadImageError(Exception):
    """The bytes of a frame are not a whole picture of the format they claim."""


class TooLargeError(BadImageError):
    """The picture is whole, perhaps, but larger than this server takes."""


class BadMessageError(Exception):
    """The bytes of a message are not what the contract says."""
