"""A configuration as a person writes it, and what names and texts may be."""

import string

from hypothesis import strategies as st

WRITTEN = """\
# The hall's gateway.

[server]
address = "127.0.0.1:50051"  # the box in the cellar

# Front door, since 2021.
[cameras.door]
url   = "rtsp://10.0.0.5/s"   # the old one
# not too many
fps = 5

# The yard, where the cars are.
[cameras.yard]
url = 'rtsp://10.0.0.6/s'
labels = [
  "car",     # ours
  "person",
]
# the end
"""

NAMES = st.text("abc.-_ \"'é", min_size=1, max_size=5)


TEXTS = st.text(string.printable + "\0\x1b\x7f\x85é€中\N{GRINNING FACE}\u2028", max_size=12)
