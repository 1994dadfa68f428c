"""Which hop each layer computes, from which blocks of the residual stream: by doubling, and by adding up set bits.

Blocks are numbered from 0: block 0 holds a token's place E(i, j), block 1 its value E(i, sigma_i(j)), and layer l
(from 0) writes block l+2. A layer's query block says where token (i, j) looks: a block that holds
E(i+r-1, hop_i^r(j)) sends it to token (i+r, hop_i^r(j)); what it finds there in the value block is copied.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """hops: the r of the hop that this layer completes; query, value: the blocks it looks with and copies."""

    hops: int
    query: int
    value: int


def is_power_of_two(number: int) -> bool:
    return number >= 1 and number & (number - 1) == 0


def layers(blocks: int) -> tuple[Layer, ...]:
    """The layers that compute hop^k: 1 + floor(log2 k) by doubling, then one for each further set bit of k.

    >>> [layer.hops for layer in layers(8)]
    [1, 2, 4, 8]
    >>> [layer.hops for layer in layers(13)]
    [1, 2, 4, 8, 5, 13]
    """
    depth = blocks.bit_length()
    plan = [Layer(1, query=0, value=1)]
    plan += [Layer(2**place, query=place + 1, value=place + 1) for place in range(1, depth)]
    bits = [place for place in range(depth) if blocks >> place & 1]
    hops, accumulator = 2 ** bits[0], bits[0] + 2
    for place in bits[1:]:
        hops += 2**place
        plan.append(Layer(hops, query=accumulator, value=place + 2))
        accumulator = len(plan) + 1
    return tuple(plan)


def embedding_width(blocks: int, alphabet: int) -> int:
    """d = kN (2 + layers), which is kN (3 + log2 k) where k is a power of two."""
    return blocks * alphabet * (2 + len(layers(blocks)))
