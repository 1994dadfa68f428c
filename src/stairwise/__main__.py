"""Where the command `stairwise` begins: it imports the rest, so that Ctrl-C is answered from the first moment on."""

import os
import signal
import sys


def main() -> int:
    """The exit status of the command line."""
    try:
        if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # see `stairwise`
            signal.signal(signal.SIGINT, signal.default_int_handler)
        from stairwise import cli

        return cli.main()
    except KeyboardInterrupt:  # during the import; later ones are met there
        print("\nstairwise: stopped", file=sys.stderr, flush=True)
        os._exit(128 + signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while the interpreter ends it has nobody to answer


if __name__ == "__main__":
    sys.exit(main())
