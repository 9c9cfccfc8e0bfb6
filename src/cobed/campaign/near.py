"""Words that are nearly the same: by case, spaces, accents or one typing error. And ids that a spreadsheet has changed."""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation

# Ids that were padded with zeros had at most so many digits.
MAX_DIGITS = 20
# Between shorter words one typing error says nothing.
SHORTEST = 4
NUMBERING = r"\d|\b[^\W\d]\b"


def plain(word: str) -> str:
    """The word without case, accents and needless spaces; quotes and dashes in their simplest form."""
    spread = unicodedata.normalize("NFKD", word)
    letters = "".join(letter for letter in spread if not unicodedata.combining(letter))
    letters = re.sub("[\u2010-\u2015\u2212]", "-", re.sub("[\u2018\u2019]", "'", letters))
    return re.sub(r"[\s\u200b\ufeff]+", " ", letters).strip().casefold()


def same_plain(word: str, valid: Iterable[str]) -> str | None:
    """The valid word that differs in case, spaces or accents alone; None where there is none."""
    wanted = plain(word)
    loose = wanted.replace(" ", "")
    return next((name for name in valid if plain(name) == wanted or plain(name).replace(" ", "") == loose), None)


def near(word: str, valid: Sequence[str]) -> str | None:
    """The valid word that was probably meant: the same but for case, spaces, accents, or one typing error."""
    same = same_plain(word, valid)
    if same is not None or len(word) < SHORTEST:
        return same
    wanted = plain(word)
    return next((name for name in valid if len(name) >= SHORTEST - 1 and _one_error(wanted, plain(name))), None)


def nearest(word: str, valid: Sequence[str]) -> str:
    """' Did you mean ...?', or nothing where no valid name is like the word."""
    likely = near(word[:200], valid)
    if likely is None:
        likely = next(iter(difflib.get_close_matches(word[:200], valid, n=1, cutoff=0.6)), None)
    return f" Did you mean {likely!r}?" if likely is not None else ""


def _one_error(left: str, right: str) -> bool:
    """Whether one letter was left out, added, changed, or exchanged with the next one."""
    # Other digits or single letters are another name: North 1 and North 2, Team A and Team B.
    if abs(len(left) - len(right)) > 1 or re.findall(NUMBERING, left) != re.findall(NUMBERING, right):
        return False
    start = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    left, right = left[start:], right[start:]
    return left[1:] == right or left == right[1:] or left[1:] == right[1:] or (left[1::-1] + left[2:]) == right


def id_key(unit: str) -> str:
    """What stays of an id whatever a spreadsheet did to it: '007', '7', '7.0' and '7E0' are one, 'A 1' and 'a1' too."""
    bare = plain(unit).replace(" ", "")
    number = _whole(bare)
    return bare if number is None else number


def spellings(unit: str) -> Iterator[str]:
    """Other ids that this one may have been before a spreadsheet changed it."""
    number = _whole(plain(unit).replace(" ", ""))
    if number is not None:
        yield from (number.zfill(width) for width in range(len(number), MAX_DIGITS + 1))
        yield f"{number}.0"
    bare = " ".join(unit.split())
    for text in {bare, bare.replace(" ", ""), unicodedata.normalize("NFC", bare), unicodedata.normalize("NFD", bare)}:
        yield from (text, text.upper(), text.lower(), text.title(), text.capitalize())


def _whole(text: str) -> str | None:
    """A whole number from 0 up in its shortest form; None for anything else."""
    if not re.fullmatch(r"\d+(\.0*)?|\d+(\.\d+)?e\+?\d{1,2}", text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return str(int(number)) if number == number.to_integral_value() and number < 10**MAX_DIGITS else None
