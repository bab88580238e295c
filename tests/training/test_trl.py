"""What is relied on in trl's own code, where no other test would notice that it has changed."""

import inspect
import pkgutil

from tests.tables import cases


@cases(__file__, "relied_on")
def test_trl_still_has_it(of, parameters, has, lacks):
    made = pkgutil.resolve_name(of)
    if parameters is not None:
        assert list(inspect.signature(made).parameters) == parameters
    source = inspect.getsource(made)
    assert [text for text in has or [] if text not in source] == []
    assert [text for text in lacks or [] if text in source] == []
