"""Property tests here run on machines that are busy: how long an example takes means nothing."""

from hypothesis import settings

settings.register_profile("keyed", deadline=None)
settings.load_profile("keyed")
