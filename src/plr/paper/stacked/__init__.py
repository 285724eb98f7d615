"""Thousands of small networks trained at once, on a GPU or wherever PyTorch runs.

A fit of a thousand parameters leaves a GPU idle, and starting its kernels takes longer than running them. So fits of
one architecture, however they differ in data, method and hyper-parameters, are packed into one stack (`packing`) and
trained together: by a kernel that holds one network per block of threads for as long as it trains (`fused`, needs
Triton and a GPU), or by batched tensor operations (`plain`, any device). Both choose the best epochs on the way, on the
device, and give what `plr.network` gives for each fit by itself, up to rounding and the order of the rows.

Needs PyTorch, NumPy and scikit-learn and nothing else that plr depends on.

Notes
-----
`packing` pads the layers to powers of two, with one more unit that is always one in place of biases, and lays tables
and candidates one after another, each once. One program of the fused kernel is one fit: it keeps the weights in
registers over many epochs, multiplies in tf32 three times over, which is as good as float32, walks through each row's
candidates in a loop, and after each epoch scores the validation rows and stores the network where it is the best so
far. Adam's moments and the rows come from the cache. What bounds a step is neither memory nor arithmetic but latency:
``results/speed/stacked.json`` has the figures.

Rules that keep such a kernel right: what several threads hold at once (a vector, a scalar) is read from memory once,
before anything that may write it, since a thread that reads late would take another branch and wait for the others for
ever; and arguments that change from call to call are not specialised on, or each call would compile anew.

The order of the rows is a hash of seed and epoch, so that a fit does not depend on which others share its stack, and a
run that was killed resumes with the same results: to the bit on a GPU, and up to rounding by the plain engine, which
pads the sets of all fits to one width. It is not the order of the compiled CPU kernel: where all rows fit into one
batch the two agree to rounding, elsewhere up to what another order of the rows does. `plain` needs no GPU and no
Triton; tests compare it with the CPU kernel, and the fused kernel, interpreted on the CPU, with it.
"""
