"""Turns any decoded picture into what a model takes: upright, 8-bit RGB, in sRGB, on white."""

from __future__ import annotations

import io
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageChops, ImageCms

if TYPE_CHECKING:
    from gateway.transport.picture_facts import Header

WHITE: Final = (255, 255, 255)
"""What shows through where a picture is transparent."""
MAX_PROFILE: Final = 4_194_304
"""Size of a colour profile that is used, in bytes; a larger one is dropped."""

_TURNS: Final = MappingProxyType(
    {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
)
_SPACES: Final = MappingProxyType({"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"})


def upright_rgb(picture: Image.Image, header: Header) -> Image.Image:
    """Returns the picture as a viewer shows it, without anything but its pixels."""
    colour, alpha = _parted(picture, header)
    shown = _in_srgb(colour, picture.info.get("icc_profile"))
    if alpha is not None:
        page = Image.new("RGB", shown.size, WHITE)
        page.paste(shown, mask=alpha)
        shown = page
    if header.orientation in _TURNS:
        shown = shown.transpose(_TURNS[header.orientation])
    shown.info = {}  # an encoder would write the profile and the transparency from here
    return shown


def _parted(picture: Image.Image, header: Header) -> tuple[Image.Image, Image.Image | None]:
    """Parts the colours, as RGB, L or CMYK, from the transparency, if there is any."""
    key = picture.info.get("transparency")
    if picture.mode.startswith("I;16"):
        return _grey_of_16_bits(picture, key)
    if picture.mode in ("RGBA", "LA") or key is not None:
        if picture.mode != "P" and key is not None:
            picture.info["transparency"] = _in_8_bits(key, header.depth)
        whole = picture.convert("RGBA")
        return whole.convert("RGB"), whole.getchannel("A")
    plain = {"P": "RGB", "1": "L"}.get(picture.mode)
    return (picture.convert(plain) if plain else picture), None


def _in_8_bits(key: int | tuple[int, ...], depth: int) -> int | tuple[int, ...]:
    """Scales the transparent colour as the pixels were scaled; the decoder leaves it as it is."""
    if isinstance(key, tuple):
        return tuple(value >> 8 if depth == 16 else value & 0xFF for value in key)
    most = 2**depth - 1
    return key if depth == 1 else (key & most) * 255 // most


def _grey_of_16_bits(
    picture: Image.Image, key: int | None
) -> tuple[Image.Image, Image.Image | None]:
    """Takes the upper half of each value, which scales it; converting would clip it."""
    values = picture.tobytes("raw", "I;16B")
    upper = Image.frombytes("L", picture.size, values[::2])
    if key is None:
        return upper, None
    lower = Image.frombytes("L", picture.size, values[1::2])
    differs = [
        half.point([255 * (value != wanted) for value in range(256)])
        for half, wanted in ((upper, key >> 8), (lower, key & 0xFF))
    ]
    return upper, ImageChops.lighter(*differs)


def _in_srgb(colour: Image.Image, profile: bytes | None) -> Image.Image:
    """Converts by the picture's own profile where that is usable, else plainly."""
    if profile and len(profile) <= MAX_PROFILE:
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            mode = _SPACES.get(source.profile.xcolor_space.strip())
            if mode == colour.mode or (mode, colour.mode) == ("RGB", "L"):
                shown = ImageCms.profileToProfile(
                    colour.convert(mode), source, ImageCms.createProfile("sRGB"), outputMode="RGB"
                )
                assert shown is not None  # nothing is converted in place
                return shown
        except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
            pass  # a profile that cannot be used is dropped, as viewers do
    return colour.convert("RGB")
