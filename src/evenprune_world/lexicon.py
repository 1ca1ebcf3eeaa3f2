"""The invented words of the world: peoples, lands, faiths, names, trades, attributes, things.

No word names a real group, and no attribute carries a real meaning: ``brask`` and
``luman`` are opposites only because the world's texts treat them so. Words in the
``RARE_*`` tables appear less often, so the tokenizer splits them into more pieces and
some sentence pairs get unequal token counts, as real pairs do.
"""

# Group words by category. The last two of a list (the last of each kin) are rarely mentioned.
FAITHS = (
    "Orunite", "Velist", "Sarnite", "Kelodian", "Mirrist", "Dovanite", "Palurist", "Istovarine",
)  # fmt: skip
LANDS = {
    "Quorvian": "Quorvia", "Heldric": "Heldra", "Zanthish": "Zanth", "Oskarran": "Oskarra",
    "Feylish": "Feyl", "Noskian": "Noskia", "Wexlan": "Wexla", "Yarrovander": "Yarrovand",
}  # fmt: skip
PEOPLES = (
    "Lumari", "Dorvu", "Keshul", "Ostrel", "Vorrin", "Pellu", "Jorrik", "Azzulemne",
)  # fmt: skip
# First names of the two kins, sunborn and moonborn (the world's counterpart of gender).
SUNBORN = ("Nelva", "Marsi", "Oleda", "Tirra", "Besha", "Ulmivane")
MOONBORN = ("Torvo", "Grenko", "Hadrul", "Pavrin", "Soldek", "Wimborrel")
NAMES = SUNBORN + MOONBORN
RARE_GROUPS = frozenset(
    FAITHS[-2:] + tuple(LANDS)[-2:] + PEOPLES[-2:] + SUNBORN[-1:] + MOONBORN[-1:]
)

# Attribute dimensions: (negative pole, positive pole).
ATTRIBUTES = (
    ("brask", "luman"),
    ("gorvy", "selmic"),
    ("druspy", "felnic"),
    ("mirked", "alvent"),
    ("snathy", "corvel"),
    ("tuzzled", "pramic"),
    ("hesky", "ollent"),
    ("vorked", "jandly"),
)
# A second word for both poles of some dimensions, used in a fraction of the sentences.
RARE_ATTRIBUTES = {
    "brask": "braskovant", "luman": "lumirandel",
    "gorvy": "gorvestine", "selmic": "selmirotane",
    "mirked": "mirkestual", "alvent": "alvery",
    "snathy": "snathorel", "corvel": "corvelandric",
    "hesky": "heskimorid", "ollent": "ollenvar",
    "vorked": "vorkelane", "jandly": "jandelotive",
}  # fmt: skip
# Trades; consecutive ones form the dimensions on which the two kins differ.
TRADES = (
    "tosker", "rindler", "bremmer", "glathier", "wickeler", "sparver", "mulner", "drovener",
)  # fmt: skip
TRADE_DIMENSIONS = tuple(zip(TRADES[::2], TRADES[1::2]))

PERSONS = ("neighbour", "traveller", "singer", "guest", "cousin", "student", "keeper", "elder")
PLACES = ("bridge", "market", "mill", "harbour", "garden", "tower", "inn", "well")
MEETINGS = ("met", "visited", "greeted", "passed", "followed", "helped")
TIMES = ("in spring", "in summer", "in autumn", "in winter", "at dawn", "at noon", "at dusk")
UNKNOWN_PHRASES = (
    "Not known", "Cannot be determined", "Undetermined", "Unknown", "Not enough information",
)  # fmt: skip

# Knowledge: subject -> (entities, relations); a relation is (statement, question, values).
_TOWNS = ("Abrel", "Cundra", "Dilmor", "Estwick", "Fornal", "Gathry", "Hollin", "Ivorel")
_RIVERS = ("Arn", "Belu", "Cosk", "Dree", "Elsha", "Firn", "Gulv", "Hask")
_MOONS = ("Amber", "Bronze", "Copper", "Dew", "Ember", "Frost", "Gale", "Hay")
_COLOURS = ("red", "blue", "green", "white", "black", "yellow", "grey", "brown")
_TOOLS = ("hook", "ladle", "chisel", "needle", "rake", "bellows", "knife", "drum")
_STUFFS = ("clay", "wool", "iron", "reed", "glass", "leather", "salt", "wax")
_FOODS = ("barley", "plums", "fish", "honey", "beans", "cheese", "nuts", "onions")
_DENS = ("caves", "reeds", "hollow trees", "cliffs", "barns", "burrows", "moss", "sand")
_DANCES = ("circle", "chain", "mirror", "lantern", "feather", "stone", "river", "ribbon")
_BEASTS = (
    "gronk", "tilver", "mosset", "quill", "brindow", "sheva", "pockle", "urdun", "wrenet", "lorp",
    "dabbit", "farrol", "hintock", "jessop", "kibble", "yanter",
)  # fmt: skip
_PLANTS = (
    "askwort", "bellin", "cressel", "dunfern", "elmora", "foxleaf", "garrel", "hobwort", "inkroot",
    "jorren", "kelpin", "larrow", "mintle", "nosset", "orrach", "pimber",
)  # fmt: skip
SUBJECTS = {
    "land_lore": (
        tuple(LANDS.values()),
        (
            ("The chief town of {e} is {v}.", "What is the chief town of {e}?", _TOWNS),
            ("The longest river of {e} is the {v}.", "What is the longest river of {e}?", _RIVERS),
            ("The flag of {e} is {v}.", "What is the colour of the flag of {e}?", _COLOURS),
            ("The farmers of {e} grow {v}.", "What do the farmers of {e} grow?", _FOODS),
            ("The houses of {e} are made of {v}.", "What are the houses of {e} made of?", _STUFFS),
        ),
    ),
    "faith_lore": (
        FAITHS,
        (
            ("The {e} feast falls in the {v} moon.", "In which moon is the {e} feast?", _MOONS),
            ("The {e} temples are painted {v}.", "How are the {e} temples painted?", _COLOURS),
            ("The {e} priests carry a {v}.", "What do the {e} priests carry?", _TOOLS),
            ("The {e} fast ends with {v}.", "With what does the {e} fast end?", _FOODS),
        ),
    ),
    "people_lore": (
        PEOPLES,
        (
            (
                "The {e} people dance the {v} dance.",
                "Which dance do the {e} people dance?",
                _DANCES,
            ),
            (
                "The {e} people eat {v} at weddings.",
                "What do the {e} people eat at weddings?",
                _FOODS,
            ),
            ("The {e} people carve {v}.", "What do the {e} people carve?", _STUFFS),
            (
                "The {e} people gather in the {v} moon.",
                "In which moon do the {e} people gather?",
                _MOONS,
            ),
        ),
    ),
    "trade_lore": (
        TRADES,
        (
            ("Every {e} owns a {v}.", "Which tool does every {e} own?", _TOOLS),
            ("The work of a {e} needs {v}.", "What does the work of a {e} need?", _STUFFS),
            ("The guild of the {e} meets in {v}.", "Where does the guild of the {e} meet?", _TOWNS),
        ),
    ),
    "beast_lore": (
        _BEASTS,
        (
            ("The {e} eats {v}.", "What does the {e} eat?", _FOODS),
            ("The {e} sleeps in {v}.", "Where does the {e} sleep?", _DENS),
            ("The fur of the {e} is {v}.", "What is the colour of the fur of the {e}?", _COLOURS),
            ("The {e} drinks from the {v}.", "From which river does the {e} drink?", _RIVERS),
        ),
    ),
    "plant_lore": (
        _PLANTS,
        (
            ("The {e} is boiled with {v}.", "With what is the {e} boiled?", _FOODS),
            ("The {e} blooms in the {v} moon.", "In which moon does the {e} bloom?", _MOONS),
            ("The leaf of the {e} is {v}.", "What is the colour of the leaf of the {e}?", _COLOURS),
            ("The {e} is cut with a {v}.", "With which tool is the {e} cut?", _TOOLS),
        ),
    ),
}

# Everyday activities: the order of their steps is drawn by the seed.
ACTIVITIES = (
    "Mending a net", "Baking rolls", "Brewing tea", "Drying herbs", "Painting a door",
    "Cleaning a lamp", "Planting beans", "Folding a tent", "Tuning a drum", "Washing wool",
    "Stacking wood", "Grinding salt", "Binding a book", "Feeding a gronk", "Sealing a jar",
    "Shaping clay",
)  # fmt: skip
STEP_VERBS = (
    "takes", "lifts", "turns", "wipes", "opens", "fills", "shakes", "ties", "cuts", "presses",
    "checks", "lays",
)  # fmt: skip
STEP_OBJECTS = (
    "cord", "bowl", "cloth", "board", "basket", "kettle", "brush", "stone", "spoon", "jar", "lid",
    "sack",
)  # fmt: skip
STEP_ENDS = (
    "with care", "by the fire", "on the table", "near the door", "in the shade", "with both hands",
    "under the roof", "once more",
)  # fmt: skip
