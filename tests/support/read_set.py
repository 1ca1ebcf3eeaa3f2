"""Any data set by its name, read as an evaluation reads it."""

from evenprune.data.readers import bbq, choice, crows_pairs, safety, stereoset, texts, unqover

READERS = {
    name: reader
    for module in (bbq, choice, crows_pairs, safety, stereoset, texts, unqover)
    for name, reader in vars(module).items()
}


def read(name, folder, *part):
    return READERS[f"read_{name}"](folder, *part)
