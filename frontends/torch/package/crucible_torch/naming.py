"""Names of modules, parameters, buffers and optimizer state, as a person would write them: "blocks.0.norm1.weight"."""

ROLE_UNKNOWN, ROLE_PARAMETER, ROLE_BUFFER, ROLE_OPTIMIZER_STATE = 0, 1, 2, 3


def framework_name(torch):
    """Version and vendor of a torch: a build for AMD calls its devices "cuda" too, so the device does not tell."""
    version = torch.version
    vendor = (f"AMD ROCm {version.hip}" if getattr(version, "hip", None) else f"NVIDIA CUDA {version.cuda}"
              if version.cuda else f"Intel XPU {version.xpu}" if getattr(version, "xpu", None) else "the CPU")
    return f"torch {torch.__version__}, built for {vendor}"


class Names:
    """Everything that was met, kept alive while recording so that names and bytes are there at its end."""

    def __init__(self, recorder, torch):
        self._recorder = recorder
        self._torch = torch
        self._roots = []  # (module, prefix of its members, name of itself)
        self._optimizers = []
        self._parameter_names = {}
        self._holders = {}  # by what a state is called: the optimizer whose state it is
        self._known = {}  # by the id of a root, which is kept alive: what add_root returned

    def add_root(self, root):
        """A module that no other recorded module was running; returns (module, name) of it and all below it."""
        if id(root) not in self._known:
            self._known[id(root)] = self._add_root(root)
        return self._known[id(root)]

    def _add_root(self, root):
        label = type(root).__name__
        taken = sum(known_label.partition("#")[0] == label for _, _, known_label in self._roots)
        if taken:
            label = f"{label}#{taken + 1}"
        has_tensors = any(True for _ in root.parameters()) or any(True for _ in root.buffers())
        first = has_tensors and all(prefix is not None for _, prefix, _ in self._roots)
        prefix = None if first else f"{label}."
        self._roots.append((root, prefix, label))
        self._name_root(root, prefix, final=False)
        return [(module, (prefix or "") + name if name else label) for name, module in root.named_modules()]

    def add_optimizer(self, optimizer):
        if not any(known is optimizer for known in self._optimizers):
            self._optimizers.append(optimizer)
            self._name_optimizer(optimizer, final=False)

    def name_final(self):
        """Names what the storages are at the end of the recording."""
        for root, prefix, _ in self._roots:
            self._name_root(root, prefix, final=True)
        for optimizer in self._optimizers:
            self._name_optimizer(optimizer, final=True)

    def _name_root(self, root, prefix, final):
        for name, parameter in root.named_parameters():
            name = (prefix or "") + name
            self._parameter_names.setdefault(id(parameter), name)
            self._name(parameter, name, ROLE_PARAMETER, final)
        for name, buffer in root.named_buffers():
            self._name(buffer, (prefix or "") + name, ROLE_BUFFER, final)

    def _name_optimizer(self, optimizer, final):
        for group_index, group in enumerate(optimizer.param_groups):
            for index, parameter in enumerate(group["params"]):
                name = self._parameter_names.get(id(parameter))
                if name is None:
                    name = self._own_name(f"parameter {group_index}.{index}", optimizer, parameter)
                self._name(parameter, name, ROLE_PARAMETER, final)
                self._name(parameter.grad, f"grad of {name}", ROLE_UNKNOWN, final)
                for key, value in optimizer.state.get(parameter, {}).items():
                    self._name_state(value, f"{key} of {name}", optimizer, final)
            for key, value in group.items():
                if key != "params":
                    self._name_state(value, f"{key} of group {group_index}", optimizer, final)

    def _name_state(self, value, name, optimizer, final):
        if isinstance(value, (self._torch.Tensor, list, tuple)):
            self._name(value, self._own_name(name, optimizer, optimizer), ROLE_OPTIMIZER_STATE, final)

    def _own_name(self, name, optimizer, holder):
        """`name`, with the optimizer behind it where another holder has it: several may train one parameter."""
        if self._holders.setdefault(name, holder) is holder:
            return name
        kind = type(optimizer).__name__
        number = 1 + [known for known in self._optimizers if type(known).__name__ == kind].index(optimizer)
        return f"{name} in {kind}#{number}" if number > 1 else f"{name} in {kind}"

    def _name(self, value, name, role, final):
        if isinstance(value, self._torch.Tensor):
            self._recorder.name_tensor(value, name, role, final)
        elif isinstance(value, (list, tuple)):
            for index, element in enumerate(value):
                self._name(element, f"{name}.{index}", role, final)
