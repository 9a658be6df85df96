"""Reading a warehouse without the part of PyIceberg that imports Arrow's datasets, and pandas with them."""
