"""Python reads this at its start; with TURNOUT_PATCH=1, it mends GLM-Image in newer transformers.

Since transformers 5.18.0 a picture's features are one (channels, height, width) tensor per picture,
and SGLang 0.5.23 still joins flat (tokens, channels) ones: it fails every edit. The patch puts the
flat form back at the two places where the forms meet. Without the variable SGLang is as it comes.
"""

import importlib.abc
import importlib.util
import os
import sys

MODULE = "transformers.models.glm_image.modeling_glm_image"


def flat_features(module):
    """Makes the model hand out flat features, and read them back."""
    model, face = module.GlmImageModel, module.GlmImageForConditionalGeneration
    read, hand_out = model.get_image_tokens, face.get_image_features

    def get_image_tokens(self, features, image_grid_thw=None):
        given = [features] if hasattr(features, "dim") else features
        # The quantiser is a 1x1 convolution, so one column per token is as good as the true shape.
        spatial = [each if each.dim() == 3 else each.t().unsqueeze(-1) for each in given]
        return read(self, spatial, image_grid_thw)

    def get_image_features(self, *args, **options):
        found = hand_out(self, *args, **options)
        found.pooler_output = [
            each.flatten(1).t() if each.dim() == 3 else each for each in found.pooler_output
        ]
        return found

    model.get_image_tokens = get_image_tokens
    face.get_image_features = get_image_features


class PatchOnImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets the real loader do its work, then patches what it has loaded."""

    def find_spec(self, name, path=None, target=None):
        """Steps in for one module only, and only once."""
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        self.real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        """Leaves it to the real loader."""
        return self.real.create_module(spec)

    def exec_module(self, module):
        """Loads, then patches."""
        self.real.exec_module(module)
        module.__loader__ = module.__spec__.loader = self.real
        flat_features(module)


if os.environ.get("TURNOUT_PATCH") == "1":
    sys.meta_path.insert(0, PatchOnImport())
