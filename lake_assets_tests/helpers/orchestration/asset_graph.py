"""The global asset lineage of Dagster's UI, in a browser.

Here: its nodes once they are drawn, and a picture. Not here: what they must show (the tests).
"""

import re
import time
from pathlib import Path

from lake_assets_tests.helpers.orchestration.dagster_dev import KEPT, MARTS, SILVER, Dev
from lake_assets_tests.helpers.servers.chromium import headless_chromium

BUSY = "Loading|Materializing"
"""In the text of a node that is not drawn yet, or whose asset a run computes; the sensors may start one at any time."""

CHECKED = re.compile(r"5 / \d+ Passed")
"""In the text of a node of silver whose checks have run."""


def asset_nodes(
    dev: Dev,
    profile: Path,
    picture: Path,
    *,
    of_silver: int = len(SILVER),
    others: int = len(KEPT) + len(MARTS),
) -> list[tuple[str, str]]:
    """Name and text of every node of the global asset lineage with its layers expanded; and a picture of it.
    `of_silver`, `others`: how many nodes there are to be, of silver and of the other layers.

    Each node as it was drawn when nothing was under way: on a busy machine a run that stays up leaves no moment
    at which this is true of all of them.
    """
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.by import By

    browser = headless_chromium(profile)

    drawn: dict[tuple[str, bool], str] = {}
    last: list[tuple[str, str]] = []

    def nodes() -> list[tuple[str, str]] | None:
        try:
            last[:] = [
                (name[0].text, drawn_as.text)
                for drawn_as in browser.find_elements(By.CSS_SELECTOR, "foreignObject")
                if (name := drawn_as.find_elements(By.CSS_SELECTOR, "[data-tooltip]"))
            ]
        except StaleElementReferenceException:
            return None  # drawn again while it was read
        for table, text in last:
            if "Latest event" in text and not re.search(BUSY, text):
                node = table, "File" in text  # bronze and silver have the same names
                if not CHECKED.search(drawn.get(node, "")):
                    drawn[node] = text
        checked = [text for text in drawn.values() if CHECKED.search(text)]
        every = len(drawn) == of_silver + others and len(checked) == of_silver
        return [(table, text) for (table, _), text in drawn.items()] if every else None

    def click(xpath: str) -> None:
        """For a better picture only: what is not there is not clicked."""
        for element in browser.find_elements(By.XPATH, xpath):
            browser.execute_script(
                "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", element
            )

    try:
        size = {"width": 1600, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        layers = ",".join(f"global%40global%3A{layer}" for layer in ("bronze", "silver", "gold"))
        browser.get(f"{dev.url}/asset-groups")
        dev.wait("asset graph", lambda: browser.find_elements(By.CSS_SELECTOR, "foreignObject"), 60)
        click("//*[text()='Hide navigation']")
        browser.get(f"{dev.url}/asset-groups?expanded={layers}")
        try:
            found = dev.wait("node of every asset with its checks", nodes, 180)
        except AssertionError as late:
            raise AssertionError(f"drawn as expected: {sorted(drawn)}; at last: {last}") from late
        for _ in range(4):
            click("//*[@aria-label='zoom_out']")
        time.sleep(2)  # what is still sliding into its place
        browser.save_screenshot(str(picture))
        return found
    finally:
        browser.quit()
