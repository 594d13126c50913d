"""The tensors of what a module returned, each with a name: "0", "logits", "past_key_values.0.1"."""

import dataclasses

MAX_DEPTH = 8


def named_tensors(value, torch):
    """Yields (name, tensor) in the order of the structure; a tensor that stands alone is "0"."""
    if isinstance(value, torch.Tensor):
        yield "0", value
    else:
        yield from _inside(value, "", torch, 0)


def _inside(value, prefix, torch, depth):
    if isinstance(value, torch.Tensor):
        yield prefix, value
    elif depth < MAX_DEPTH:
        for key, item in _items(value):
            yield from _inside(item, f"{prefix}.{key}" if prefix else str(key), torch, depth + 1)


def _items(value):
    """The parts of a structure. Only what is known to be plain data is looked into: nothing of the program's is run."""
    if isinstance(value, dict):  # transformers' ModelOutput too
        return list(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value))
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        present = vars(value) if hasattr(value, "__dict__") else {}
        return [(field.name, present[field.name]) for field in dataclasses.fields(value) if field.name in present]
    layers = getattr(value, "__dict__", {}).get("layers")  # transformers' caches keep their layers in a list
    if isinstance(layers, (list, tuple)) and type(value).__name__.endswith("Cache"):
        return [(index,
                 [item
                  for item in (getattr(layer, "keys", None), getattr(layer, "values", None))
                  if item is not None])
                for index, layer in enumerate(layers)]
    return []
