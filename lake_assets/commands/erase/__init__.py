"""`lake-assets erase`: every row of some keys, wherever it is, with proof."""
