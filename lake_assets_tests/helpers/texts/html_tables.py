"""Tables in a page of HTML."""

import html
import re


def rows_of(page: str, first: str) -> list[list[str]]:
    """The cells' texts of the one table that begins with this column."""
    (table,) = (found for found in page.split("<thead>") if found.startswith(f"<tr><th>{first}<"))
    rows = re.findall(r"<tr[^>]*>(<td.*?)</tr>", table.split("</table>")[0], re.DOTALL)
    texts = [
        [re.sub(r"<[^>]*>", " ", cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)] for row in rows
    ]
    return [[" ".join(html.unescape(text).split()) for text in cells] for cells in texts]
