"""``python -m evenprune_world``: the invented world, and the page of what models learned."""

from collections.abc import Sequence

from evenprune import cli

COMMANDS: cli.Commands = {
    "generate-world": "evenprune_world.generate_world",
    "train-world": "evenprune_world.train_world",
    "shipped-world-model": "evenprune_world.shipped_world_model",
    "report-world": "evenprune_world.report_world",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand, as ``evenprune.cli.main`` does."""
    return cli.main(argv, COMMANDS)


if __name__ == "__main__":
    raise SystemExit(cli.entry(None, COMMANDS))
