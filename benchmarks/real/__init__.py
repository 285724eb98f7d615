"""How well candidate sets of real joins are learned from: k-fold, with and without checked rows.

    python -m benchmarks.real run --data FOLDER --jobs 2      measure what has not been measured, then write the tables
    python -m benchmarks.real tables --data FOLDER            the tables alone, from what was measured

FOLDER holds pairs of files. ``NAME.rows.csv`` has one line a row: row, title, own_price (may be empty), true_price.
``NAME.pairs.csv`` has one line a candidate: row, record, price, score, is_match. The label is the log price; features
are 40 components of the title's TF-IDF and its length, and in cases named ``+own`` the log of the row's own price.
Beside them are made-up tables, whose false labels come about in other ways, and cells of the paper's benchmark.
Checked rows are drawn at random from all rows of the training part.
"""
