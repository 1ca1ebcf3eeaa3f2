"""Signs of tables on a terminal."""

NONE = "–"
GOOD = {"up": "high", "down": "low", "half": "0.5", "zero": "0", "": NONE}
