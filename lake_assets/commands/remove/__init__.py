"""`lake-assets remove` and `destroy`: dropping tables with all that the lake keeps of them."""
