"""Commands that show the lake in a browser: `board`, `report`."""
