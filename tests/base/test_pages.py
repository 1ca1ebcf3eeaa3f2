"""Templates: values are escaped in HTML and nowhere else, and none is left out."""

import pytest
from jinja2 import UndefinedError

from evenprune.base.pages import fill


@pytest.fixture
def template(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_html_is_escaped_and_markdown_is_not(template):
    value = {"name": '<script>"a" & b</script>'}
    html = fill(template("page.html.j2", "<p>{{ name }}</p>\n"), value)
    assert html == "<p>&lt;script&gt;&#34;a&#34; &amp; b&lt;/script&gt;</p>\n"
    assert fill(template("page.md.j2", "{{ name }}\n"), value) == value["name"] + "\n"


def test_a_missing_value_is_an_error(template):
    with pytest.raises(UndefinedError, match="name"):
        fill(template("page.md.j2", "{{ name }}"), {})
