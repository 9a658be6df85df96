"""Writing an edit to a branch, the commit that has the position, and the proof."""
