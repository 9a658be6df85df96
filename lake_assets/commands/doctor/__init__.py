"""`lake-assets doctor`: what a lake and its machine need, each with its remedy."""
