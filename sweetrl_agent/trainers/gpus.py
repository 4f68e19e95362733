"""GPUs that a run can be planned for, by name: what their data sheets say, and an assumed price."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from sandboxes.named import nearest

#: Memory bandwidth and parameters of the GPU and the model that the assumed rates of sampling are of, and the most tokens a second that are assumed.
_H100_BANDWIDTH, _OF_8B, _MOST_SAMPLED = 3.35e12, 8_030_261_248, 20_000.0
#: Tokens a second that one H100 samples for 8B with many dialogues: with vLLM, and with our continuous batching.
VLLM_SAMPLED, OUR_SAMPLED = 4_000.0, 2_000.0
_GIVEN = re.compile(r"(?:(\d{1,6})\s*[x×*]\s*)?([A-Za-z0-9][\w .-]*?)(?:\s+at\s+(\d{1,9}(?:\.\d{1,9})?)\s*([^\s\d.]{1,8}))?")


@dataclass(frozen=True)
class GPU:
    """A kind of GPU.

    Attributes:
        name: Its name in `--gpu`.
        peak: Dense bfloat16 operations per second.
        memory_gib: Memory that a process can use.
        bandwidth: Bytes per second of its memory.
        price: Assumed price of an hour, in USD: a usual one of rented GPUs in 2025.
    """

    name: str
    peak: float
    memory_gib: float
    bandwidth: float
    price: float

    def sampled(self, parameters: float, base: float = VLLM_SAMPLED) -> float:
        """Assumed tokens per second that it samples with many dialogues: sampling is bound by the memory's bandwidth.

        Args:
            parameters: Parameters of the model.
            base: Tokens per second of an H100 for 8B.
        """
        return min(_MOST_SAMPLED, base * _OF_8B / parameters * self.bandwidth / _H100_BANDWIDTH)


#: The first name that a device's name contains is taken for it. Peak and bandwidth are those of NVIDIA's data sheets (SXM where there is one).
GPUS = {
    gpu.name: gpu
    for gpu in (
        GPU("H200-141GB", 989e12, 139, 4.8e12, 3.5), GPU("H100-80GB", 989e12, 79, 3.35e12, 2.5), GPU("A100-80GB", 312e12, 79, 2.04e12, 1.6),
        GPU("A100-40GB", 312e12, 39, 1.56e12, 1.2), GPU("L40S-48GB", 362e12, 44, 0.86e12, 1.0), GPU("RTX4090-24GB", 165e12, 23, 1.01e12, 0.5),
    )
}  # fmt: skip


@dataclass(frozen=True)
class GivenGPUs:
    """GPUs as named in `--gpu`.

    Attributes:
        count: Their number.
        gpu: Their kind.
        price: Price of an hour of one.
        currency: Unit of the price.
        is_assumed: Whether the price is ours.
    """

    count: int
    gpu: GPU
    price: float
    currency: str
    is_assumed: bool

    @property
    def text(self) -> str:
        """Number, name and price in words."""
        whose = "assumed; give yours as in" if self.is_assumed else "as given in"
        example = f"--gpu '{self.count} x {self.gpu.name} at {self.price:g} {self.currency}'"
        return f"{self.count} x {self.gpu.name}, {self.price:g} {self.currency} a GPU hour ({whose} `{example}`)"


def parse_gpus(text: str) -> GivenGPUs:
    """GPUs by a text such as "8 x H100-80GB" or "8 x H100 at 1.99 EUR".

    Raises:
        ValueError: If it is another text, or the GPU is unknown.
    """
    match = _GIVEN.fullmatch(text.strip())
    known = ", ".join(GPUS)
    if not match or not int(match[1] or 1):
        raise ValueError(
            f"`gpu` must be GPUs such as '8 x H100-80GB' or '8 x H100-80GB at 2.5 USD', with one of {known}, got {text!r}."
        )
    name = match[2].upper().replace(" ", "")
    gpu = next((own for key, own in GPUS.items() if key.upper() == name or key.upper().startswith(f"{name}-")), None)
    if gpu is None:
        raise ValueError(f"`gpu` must name one of {known}, got {match[2]!r}.{nearest(match[2], list(GPUS))}")
    price = float(match[3]) if match[3] else gpu.price
    return GivenGPUs(int(match[1] or 1), gpu, price, match[4] or "USD", match[3] is None)


def here() -> GPU:
    """The GPU of this machine; an H100 if it is none of ours."""
    device = torch.cuda.get_device_name().upper().replace(" ", "")
    return next((gpu for key, gpu in GPUS.items() if key.upper().partition("-")[0] in device), GPUS["H100-80GB"])
