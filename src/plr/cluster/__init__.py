"""plr on a Ray cluster.

`session` connects to a cluster or starts one on this machine, `ray_engine` trains a model by Ray Train, and `workers`
is what its workers do. Ray is imported where it is used: the rest of plr works without the extra ``ray``.
"""

from __future__ import annotations
