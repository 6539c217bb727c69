# Prints a header, named by its whole path, as docs/reference/filter.py wrote it into $SHOWN.
exec cat "$SHOWN$1"
