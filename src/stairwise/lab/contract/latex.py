"""LaTeX between dollars as Unicode, for terminals: enough for one-line statements, with no claim to more."""

import re
from collections.abc import Callable

# a name and its symbol, in turn
NAMED = """
alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ iota ι kappa κ lambda λ mu μ nu ν xi
ξ pi π rho ρ sigma σ tau τ upsilon υ phi φ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi
Π Sigma Σ Phi Φ Psi Ψ Omega Ω le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ approx ≈ sim ∼ simeq ≃ equiv ≡ propto ∝ cdot ·
times × circ ∘ oplus ⊕ otimes ⊗ pm ± mp ∓ to → rightarrow → mapsto ↦ Rightarrow ⇒ iff ⇔ infty ∞ in ∈ notin ∉
subset ⊂ subseteq ⊆ cup ∪ cap ∩ setminus ∖ emptyset ∅ forall ∀ exists ∃ partial ∂ nabla ∇ sum ∑ prod ∏ int ∫
langle ⟨ rangle ⟩ ell ℓ dagger † ll ≪ gg ≫ ast ∗ star ⋆ mid ∣ parallel ∥ perp ⊥ lceil ⌈ rceil ⌉ lfloor ⌊ rfloor
⌋ lesssim ≲ gtrsim ≳ dots … ldots … cdots … prime ′ wedge ∧ vee ∨ neg ¬ top ᵀ lVert ‖ rVert ‖ lvert | rvert |
Vert ‖ vert |
"""
NAMES = NAMED.split()
SYMBOLS: dict[str, str] = dict(zip(NAMES[::2], NAMES[1::2], strict=True))
SYMBOLS |= {"quad": " ", **dict.fromkeys(("left", "right", "big", "Big", "bigl", "bigr"), "")}
SPACES = {",": " ", ";": " ", ":": " ", "!": "", " ": " ", "{": "{", "}": "}", "|": "‖", "%": "%", "_": "_", "&": "&"}
MARKS = {"tilde": "\u0303", "hat": "\u0302", "bar": "\u0304", "overline": "\u0304", "dot": "\u0307", "vec": "\u20d7"}
PLAIN = ("mathrm", "text", "mathbf", "mathcal", "operatorname", "boldsymbol", "bm", "mathsf", "widetilde", "widehat")
FUNCTIONS = ("log", "ln", "exp", "tanh", "max", "min", "sup", "inf")
BEGIN, END = "\x01", "\x02"  # around the name of a function, until its neighbours are known
BOARD: dict[str, str] = dict(zip("ERNZPC1", "𝔼ℝℕℤℙℂ𝟙", strict=True))
RAISED = dict(
    zip("0123456789+-=()nikTtabcdefghjlmoprsuvwxyzL", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱᵏᵀᵗᵃᵇᶜᵈᵉᶠᵍʰʲˡᵐᵒᵖʳˢᵘᵛʷˣʸᶻᴸ", strict=True)
)
LOWERED = dict(zip("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))


def plain(text: str) -> str:
    r"""A statement as a terminal shows it.

    >>> plain(r"loss $\le \varepsilon$ after $O(T^2/(\eta\varepsilon))$ steps")
    'loss ≤ ε after O(T²/(ηε)) steps'
    >>> plain(r"$\frac{T-q}{Tq} \cdot \sqrt{q} e^{-\alpha t}$ and $x_{i+1}$, $\tilde{O}(n)$")
    '(T-q)/(Tq) · √q e^(-αt) and xᵢ₊₁, Õ(n)'
    >>> plain(r"$2\sigma_0\log d$, $\log_2 k$ and $B\log\log\frac{q}{\varepsilon}$")
    '2σ₀ log d, log₂ k and B log log(q/ε)'
    """
    return re.sub(r"\$([^$]*)\$", lambda found: _Reader(found[1]).all().strip(), text)


class _Reader:
    """Reads LaTeX from left to right."""

    def __init__(self, text: str):
        self.text, self.at = text, 0

    def all(self) -> str:
        found = []
        while self.at < len(self.text):
            found.append(self.one())
        apart = re.sub(rf"(?<=[\w)\]!]){BEGIN}|{END}(?=[A-Za-zΑ-ω0-9√{BEGIN}])", " ", "".join(found))
        return re.sub(r"  +", " ", re.sub(f"[{BEGIN}{END}]", "", apart))

    def one(self) -> str:
        """The next letter, command or group."""
        letter = self.text[self.at]
        self.at += 1
        if letter == "\\":
            return self.command()
        if letter == "{":
            return self.group()
        if letter in "^_":
            return _script(self.argument(), letter)
        return {"}": "", "~": " ", "'": "′"}.get(letter, letter)

    def group(self) -> str:
        """What stands between the brace that was just read and its partner."""
        depth, start = 1, self.at
        while self.at < len(self.text) and depth:
            escaped = self.at > start and self.text[self.at - 1] == "\\"
            depth += 0 if escaped else {"{": 1, "}": -1}.get(self.text[self.at], 0)
            self.at += 1
        return _Reader(self.text[start : self.at - (depth == 0)]).all()

    def argument(self) -> str:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1
        return self.one() if self.at < len(self.text) else ""

    def command(self) -> str:
        name = re.match(r"[A-Za-z]+|.?", self.text[self.at :], re.DOTALL)[0]  # type: ignore[index]
        self.at += len(name)
        if name in SPACES:
            return SPACES[name]
        if name in ("frac", "tfrac", "dfrac"):
            above, below = self.argument(), self.argument()
            return f"{_closed(above)}/{_closed(below)}"
        if name in FUNCTIONS:
            of_a_ratio = re.match(r" *\\[td]?frac\b", self.text[self.at :])
            return f"{BEGIN}{name}({self.argument()})" if of_a_ratio else f"{BEGIN}{name}{END}"
        if name == "sqrt":
            return f"√{_closed(self.argument())}"
        if name == "binom":
            return f"C({self.argument()},{self.argument()})"
        if name in MARKS:
            return "".join(letter + MARKS[name] for letter in self.argument()).replace("O\u0303", "Õ")
        if name == "mathbb":
            return "".join(BOARD.get(letter, letter) for letter in self.argument())
        if name in PLAIN:
            return self.argument()
        symbol = SYMBOLS.get(name, name)
        if name in SYMBOLS and (symbol.isalpha() or symbol == "⟨") and symbol != "ᵀ":
            after = self.text[self.at : self.at + 2]
            self.at += after[:1] == " " and after[1:].isalnum()  # it only ended the command
        return symbol


def _script(text: str, mark: str) -> str:
    table = RAISED if mark == "^" else LOWERED
    if text in ("ᵀ", "′", "∗", "⋆", "†") and mark == "^":
        return text.replace("∗", "*").replace("⋆", "*")
    if text and all(letter in table for letter in text):
        return "".join(table[letter] for letter in text)
    return f"{mark}{text}" if len(text) == 1 else f"{mark}({text})"


def _closed(text: str) -> str:
    """In brackets where it is more than one name or number."""
    simple: Callable[[str], object] = re.compile(r"[\w.]|\d+(\.\d+)?").fullmatch
    return text if simple(text) else f"({text})"
