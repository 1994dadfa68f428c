r"""LaTeX between dollars as MathML, which browsers typeset without a script, a font or a network.

It knows what the pages and the claims use: scripts, fractions, roots, binomials, accents, alphabets and named symbols.
A command that it does not know is an error, so that no page shows a backslash.
"""

import re
from html import escape

from stairwise.lab.contract.latex import SYMBOLS

FUNCTIONS = ("cos", "dim", "exp", "lim", "ln", "log", "max", "min", "mod", "Pr", "sgn", "sin", "sup", "tanh")
SPACES = {",": 0.17, ":": 0.22, ";": 0.28, "!": 0, " ": 0.25, "quad": 1, "qquad": 2}
ACCENTS = {"hat": "^", "widehat": "^", "bar": "¯", "overline": "¯", "tilde": "~", "widetilde": "~", "dot": "˙"}
ESCAPED = {"{": "{", "}": "}", "|": "‖", "%": "%", "&": "&", "_": "_", "#": "#"}
FENCES = "()[]{}|‖⟨⟩⌈⌉⌊⌋"
SIZES = ("left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "middle", "limits")
BOARD = dict(zip("EPRNZC1", "𝔼ℙℝℕℤℂ𝟙", strict=True))
SCRIPT = dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True))  # the others stand in a row from 𝒜 on
OPERATORS = "≤≥≲≳≠≈∼≃≡∝·×∘⊕⊗±∓→↦⇒⇔∈∉⊂⊆∪∩∖∀∃∑∏∫≪≫∣∥⊥∧∨¬…⌈⌉⌊⌋⟨⟩‖|∗⋆†"
SIGNS = ("<mo>−</mo>", "<mo>+</mo>", "<mo>±</mo>")
NAMES = tuple(f"<mi>{name}</mi>" for name in FUNCTIONS)
BIG = {f"<mo>{symbol}</mo>" for symbol in "∑∏"} | {"<mi>max</mi>", "<mi>min</mi>"}


def typeset(latex: str, *, display: bool = False) -> str:
    r"""One formula as a MathML element.

    >>> typeset("x_1^2")
    '<math><msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup></math>'
    >>> typeset(r"\frac{T-q}{Tq}")
    '<math><mfrac><mrow><mi>T</mi><mo>−</mo><mi>q</mi></mrow><mrow><mi>T</mi><mi>q</mi></mrow></mfrac></math>'
    """
    shown = ' display="block"' if display else ""
    return f"<math{shown}>{_Reader(latex, display).row()}</math>"


def in_text(text: str) -> str:
    """Plain text with formulas between dollars, as HTML."""
    parts = re.split(r"\$([^$]*)\$", text)
    code = lambda words: re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(words, quote=False))  # noqa: E731
    return "".join(typeset(part) if place % 2 else code(part) for place, part in enumerate(parts))


class _Reader:
    """Reads LaTeX from left to right; every method returns MathML."""

    def __init__(self, text: str, display: bool = False):
        self.text, self.at, self.display = text, 0, display

    def row(self) -> str:
        """All of the text."""
        found: list[str] = []
        while self.skip_blanks():
            piece = self.scripted()
            after = found[-1] if found else ""
            if piece in SIGNS and _expects_more(after):
                piece = piece.replace("<mo>", '<mo form="prefix">')
            elif piece.startswith(NAMES) and after and not _expects_more(after):
                found.append('<mspace width="0.17em"></mspace>')
            found.append(piece)
        return "".join(found)

    def skip_blanks(self) -> bool:
        while self.at < len(self.text) and self.text[self.at] in " ~\n":
            self.at += 1
        return self.at < len(self.text)

    def scripted(self) -> str:
        """The next thing with its subscript and superscript."""
        base = "<mrow></mrow>" if self.text[self.at] in "^_" else self.one()
        below = above = ""
        while self.skip_blanks() and self.text[self.at] in "^_'":
            mark = self.text[self.at]
            self.at += 1
            if mark == "'":
                above += "<mo>′</mo>"
            elif mark == "_":
                below = self.argument()
            else:
                above += self.argument()
        if above.count("<mo>′</mo>") and above != "<mo>′</mo>":
            above = f"<mrow>{above}</mrow>"
        if self.display and base in BIG:  # what it runs over stands below it
            above = above or "<mrow></mrow>"
            return f"<munderover>{base}{below or '<mrow></mrow>'}{above}</munderover>"
        if below and above:
            return f"<msubsup>{base}{below}{above}</msubsup>"
        if below:
            return f"<msub>{base}{below}</msub>"
        return f"<msup>{base}{above}</msup>" if above else base

    def one(self) -> str:
        """The next letter, number, group or command."""
        number = re.compile(r"\d+(?:(?:\.|\{,\})\d+)*").match(self.text, self.at)
        if number:
            self.at = number.end()
            return f"<mn>{number[0].replace('{,}', ',')}</mn>"
        letter = self.text[self.at]
        self.at += 1
        if letter == "\\":
            return self.command()
        if letter == "{":
            return f"<mrow>{_Reader(self.group()).row()}</mrow>"
        if letter.isalpha():
            return f"<mi>{letter}</mi>"
        return _operator({"-": "−", "*": "∗"}.get(letter, letter))

    def group(self) -> str:
        """What stands between the brace that was just read and its partner, as it is written."""
        depth, start = 1, self.at
        while self.at < len(self.text) and depth:
            escaped = self.text[self.at - 1] == "\\"
            depth += 0 if escaped else {"{": 1, "}": -1}.get(self.text[self.at], 0)
            self.at += 1
        if depth:
            raise ValueError(f"a brace is not closed in {self.text}")
        return self.text[start : self.at - 1]

    def argument(self) -> str:
        """One argument as exactly one element; \frac12 has two of one digit."""
        if not self.skip_blanks():
            raise ValueError(f"an argument is missing in {self.text}")
        if self.text[self.at].isdigit():
            self.at += 1
            return f"<mn>{self.text[self.at - 1]}</mn>"
        if self.text[self.at] != "{":
            return self.one()
        self.at += 1
        inner = self.group()
        simple = re.fullmatch(r"\s*(?:[A-Za-z]|\d+|\\[A-Za-z]+)\s*", inner)
        content = _Reader(inner).row()
        return content if simple else f"<mrow>{content}</mrow>"

    def words(self) -> str:
        """One argument as it is written."""
        self.skip_blanks()
        self.at += 1
        return self.group() if self.text[self.at - 1] == "{" else self.text[self.at - 1]

    def command(self) -> str:
        found = re.compile(r"[A-Za-z]+|.", re.DOTALL).match(self.text, self.at)
        if found is None:
            raise ValueError(f"a backslash ends {self.text}")
        name, self.at = found[0], found.end()
        if name in ESCAPED:
            return _operator(ESCAPED[name])
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}em"></mspace>'
        if name in SIZES:
            return self.one() if name != "limits" and self.skip_blanks() and self.text[self.at] != "." else ""
        if name in ("frac", "tfrac", "dfrac"):
            return f"<mfrac>{self.argument()}{self.argument()}</mfrac>"
        if name == "binom":
            inner = f'<mfrac linethickness="0">{self.argument()}{self.argument()}</mfrac>'
            return f"<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>"
        if name == "sqrt":
            return f"<msqrt>{self.argument()}</msqrt>"
        if name in ACCENTS:
            return f'<mover accent="true">{self.argument()}<mo stretchy="false">{ACCENTS[name]}</mo></mover>'
        if name in ("mathrm", "operatorname", "mathsf"):
            return f'<mi mathvariant="normal">{escape(self.words())}</mi>'
        if name in ("text", "textrm"):
            words = self.words()
            start, end = ("\u00a0" * (words[at] == " ") for at in (0, -1))  # which a browser would leave out
            return f"<mtext>{start}{escape(words.strip())}{end}</mtext>"
        if name in ("mathbb", "mathcal", "mathbf", "boldsymbol", "bm"):
            return f"<mi>{escape(''.join(_styled(name, letter) for letter in self.words() if letter != ' '))}</mi>"
        if name in ("bmod", "pmod"):
            return '<mspace width="0.25em"></mspace><mi>mod</mi><mspace width="0.25em"></mspace>'
        if name in FUNCTIONS:
            apart = '<mspace width="0.17em"></mspace>' if self.text[self.at : self.at + 1] == " " else ""
            return f"<mi>{name}</mi>{apart}"
        if name == "top":
            return "<mi>⊤</mi>"
        if name not in SYMBOLS:
            raise ValueError(f"\\{name} is not known here: {self.text}")
        symbol = SYMBOLS[name]
        return _operator(symbol) if symbol in OPERATORS else f"<mi>{symbol}</mi>"


def _expects_more(piece: str) -> bool:
    """Whether a sign after it belongs to what follows: after an operator or an opening bracket."""
    return piece.startswith("<mo") and not re.fullmatch(r"<mo[^>]*>[)\]}!⟩⌉⌋…]</mo>", piece)


def _operator(symbol: str) -> str:
    fence = ' stretchy="false"' if symbol in FENCES else ' lspace="0" rspace="0"' if symbol in "/!" else ""
    fence += ' lspace="0" rspace="0"' if symbol == "|" else ""
    return f"<mo{fence}>{escape(symbol)}</mo>"


def _styled(alphabet: str, letter: str) -> str:
    if alphabet == "mathbb":
        return BOARD.get(letter, letter)
    if alphabet == "mathcal":
        return SCRIPT.get(letter) or chr(0x1D49C + ord(letter) - ord("A"))
    return chr(0x1D400 + ord(letter) - ord("A")) if "A" <= letter <= "Z" else letter
