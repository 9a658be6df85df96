"""Files that Arrow looks at before Spark reads them."""
