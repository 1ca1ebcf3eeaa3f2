"""What holds for every method and regime, also for one that is added."""

import sys

import pytest

from evenprune import methods
from evenprune.config import facts
from evenprune.config.pruning_keys import Pruning
from evenprune.io.codedigest import import_closure
from evenprune.methods.method import Method
from evenprune.methods.options import PRUNING_METHODS, Options

each = pytest.mark.parametrize("name", PRUNING_METHODS)


@each
def test_facts_and_module_agree(name):
    method, declared = methods.find(name), facts.METHODS[name]
    assert isinstance(method, Method)
    assert declared.calibrated == (method.statistic is not None)
    assert set(declared.options) <= set(Pruning.model_fields)
    assert f"`{name}`: " in sys.modules[methods.module_of(name)].__doc__
    assert methods.description(name)


@each
def test_options_that_a_method_does_not_use_are_none(name):
    used = Options(name, "2of4").relevant()
    declared = set(facts.METHODS[name].options)
    for option in Pruning.model_fields:
        assert (used[option] is not None) == (option in declared), option
    assert (used["packing"] is not None) == facts.METHODS[name].calibrated
    assert Options.of({"method": name, "regime": "2of4", "options": used}) == Options(name, "2of4")


@each
def test_a_method_keeps_to_its_own_code(name):
    """Another method's module decides nothing of this one's result, but what it is built on."""
    closure = import_closure(methods.module_of(name), methods.FACTS)
    engine = import_closure("evenprune.pruning.engine", methods.FACTS)
    assert "evenprune.config.facts" not in {*closure, *engine}
    every = {methods.module_of(one) for one in PRUNING_METHODS}
    assert not every & set(engine)
    assert "evenprune.methods.solver" not in engine
    base = {
        "debias-sparsegpt": {"sparsegpt"},
        "debias-lora": {"magnitude", "wanda", "sparsegpt"},  # its solvers
    }.get(name, set())
    assert every & set(closure) == {methods.module_of(one) for one in (*base, name)}
