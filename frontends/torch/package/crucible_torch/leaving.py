"""Where values leave tensors for Python without an operator: methods that are stood in for while iterations are
recorded.

What a stand-in does is C++ (leaving.cpp); here is the list. `.item()`, `float()`, a condition and the like are
operators, which are recorded as such; their stand-ins tell where the operator runs unseen: inside torch.tensor() of a
list of tensors.
"""

# (owner, names, way); an owner that a version of torch lacks, or a name, is left out.
METHODS = (
    ("Tensor", ("numpy",), "numpy"),
    ("Tensor", ("tolist",), "tolist"),
    ("Tensor", ("data_ptr",), "data_ptr"),
    ("Tensor", ("__repr__", "__format__"), "print"),
    ("Tensor", ("__reduce_ex__",), "pickle"),
    ("Tensor", ("item", "__bool__", "__int__", "__float__", "__index__", "__complex__"), "item"),
    ("UntypedStorage", ("__getitem__", "tolist", "__iter__", "_write_file", "__reduce__"), "storage"),
    ("UntypedStorage", ("data_ptr",), "data_ptr"),
    ("UntypedStorage", ("_share_fd_cpu_", "_share_filename_cpu_"), "share_memory"),
    ("_C", ("_to_dlpack", "_to_dlpack_versioned"), "dlpack"),
    ("utils.dlpack", ("to_dlpack",), "dlpack"),
    ("", ("to_dlpack",), "dlpack"),
    # Not a way out: how often a process unpickles what its workers sent between two steps is no part of the program.
    ("multiprocessing.reductions", ("rebuild_tensor", "rebuild_storage_fd", "rebuild_storage_filename"), "nothing"),
)


def put_back(owner, name, before, ours):
    if vars(owner).get(name) is not ours:
        return  # the program has put something else there
    if before is None:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


class Leaving:
    """The stand-ins. Threads: whoever holds the GIL."""

    def __init__(self, recorder, torch):
        self._recorder = recorder
        self._torch = torch
        self._replaced = []  # (owner, name, what its own dictionary had, or None, ours)

    def install(self):
        for path, names, way in METHODS:
            owner = self._torch
            for part in path.split(".") if path else ():
                owner = getattr(owner, part, None)
            for name in names:
                original = getattr(owner, name, None)
                if original is None:
                    continue
                ours = self._recorder.wrap_leaving(way, original)
                self._replaced.append((owner, name, vars(owner).get(name), ours))
                setattr(owner, name, ours)

    def step_aside(self):
        """For a while torch has its own functions; step_back() puts the same stand-ins in their place again."""
        for owner, name, before, ours in reversed(self._replaced):
            put_back(owner, name, before, ours)

    def step_back(self):
        for owner, name, before, ours in self._replaced:
            if vars(owner).get(name) is before:  # else the program has put something else there
                setattr(owner, name, ours)

    def remove(self):
        while self._replaced:
            put_back(*self._replaced.pop())
