"""Values of every type by Arrow, and large files that Arrow looks at before Spark reads them."""
