"""Small, seeded instances of real models, each as (module, step function). `MODELS` has them by name."""

from zoo import generative, inference, multimodal, ranking, reward, text, vision  # noqa: F401  (they register)
from zoo.common import MODELS  # noqa: F401
