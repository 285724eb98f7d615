"""Tables that need not fit in memory: folders of Parquet files, read and written some rows at a time."""
