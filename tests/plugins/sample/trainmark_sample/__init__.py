"""One of everything that a package can add to trainmark, as small as it can be."""
