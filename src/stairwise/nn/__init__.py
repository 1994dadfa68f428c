"""Building blocks that papers share: attention, positional encodings, the standard transformer."""
