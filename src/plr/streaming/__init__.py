"""Tables that need not fit in memory: folders of Parquet files, read and written some rows at a time.

Rows come from a folder in an order that may be that of their labels, and decoding them takes longer than a small
network's step. So training does not read the folder again and again: the second pass over it writes a shuffled copy,
encoded as the network sees it. Rows are dealt to *chunks* at random, as many as memory holds at a time; a chunk is a
random sample of all rows, and a *round* of training. Each chunk is divided into *lanes*, of which every batch takes
equal shares. The gradients of the lanes are computed apart and added pairwise in double precision, so that it makes no
difference which process has which lanes: one process, two workers of Ray Train, and a training that was killed and
resumed end at the same network, to the bit (three and four workers: but for the order in which the cluster adds; more
have more lanes, and so other batches). The order of everything follows from the seed and the sizes of the lanes, so
that processes need not exchange it. The noise is learned after each round, not each epoch: with billions of rows there
are few epochs.

Sums give scaling and encoding exactly. What needs rows, not sums, has a sample; what needs rows that no model has seen,
the noise scale, intervals and the best epoch, has rows that are held out. Both numbers are fixed and reported.

The same training runs in this process or on a Ray cluster, which maps parts of the folder over tasks and hands the
training to Ray Train. Workers read their lanes from the copy on the disk, which they share. Checkpoints are arrays
without code. An error of the training itself is written down by the worker, since Ray would only try it again; a death
is not.
"""
