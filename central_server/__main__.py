"""`python -m central_server`: the command line, where the console script is not on the path."""

from central_server.cli import main

main()
