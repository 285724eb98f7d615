"""What every page must keep to."""

import base64
import hashlib
import html
import re


def check_policy(page):
    """Assert that a page admits its own style and script, by their hashes, and nothing else."""
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    hashes = {}
    for kind in ("style", "script"):
        (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        hashes[kind] = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert html.unescape(policy) == (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src 'sha256-{hashes['style']}'; script-src 'sha256-{hashes['script']}'"
    )
    assert " style=" not in page
