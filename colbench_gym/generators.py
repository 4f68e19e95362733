"""The global random generators of Python, NumPy and torch.

Our own code does not draw from them; libraries do (dropout, for example), and so do environments and simulated humans of other people. They
are one state for the whole process, so what a dialogue draws would depend on the dialogues that are played beside it. torch takes part once
something has imported it, and its GPU generators once CUDA is initialized.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random.mtrand import get_bit_generator, set_bit_generator

from colbench_gym.seeds import derive_seed


@dataclass(frozen=True, eq=False)
class RngState:
    """The state of all global generators.

    Attributes:
        python: Of `random`.
        numpy: Of `numpy.random`.
        torch: Of torch's CPU generator; None before torch is imported.
        cuda: Of torch's GPU generators, by device; () before CUDA is initialized.
    """

    python: Any
    numpy: Any
    torch: Any = None
    cuda: tuple[Any, ...] = ()

    @classmethod
    def now(cls) -> RngState:
        """The present state."""
        return cls(random.getstate(), np.random.get_state(), *_torch_states())

    def restore(self) -> None:
        """Make it the present state; generators that it does not know are left as they are."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        _set_torch_states(self.torch, self.cuda)

    def drawn_since(self, before: RngState) -> tuple[str, ...]:
        """Names of the generators whose states differ from those of another moment."""
        changed = {
            "Python's `random`": self.python != before.python,
            "`numpy.random`": any(not np.array_equal(a, b) for a, b in zip(self.numpy, before.numpy, strict=True)),
            "torch": self.torch is not None and before.torch is not None and not self.torch.equal(before.torch),
            "torch on a GPU": any(not a.equal(b) for a, b in zip(self.cuda, before.cuda, strict=False)),
        }
        return tuple(name for name, is_changed in changed.items() if is_changed)


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Restore the global generators at the end of a block, so that what it draws changes nothing after it."""
    before = RngState.now()
    try:
        yield
    finally:
        before.restore()


class PrivateGenerators:
    """A state of the global generators that belongs to one dialogue: `in_use` puts it in place for a block.

    The blocks of a process must not overlap in time: there is one `random`, whatever the thread. NumPy's bit generator is exchanged, which takes
    a hundredth of the time of its state; the second one of a pair of normal numbers, which `numpy.random` holds back, is lost at the ends of a block.
    """

    def __init__(self, *address: int | str) -> None:
        """Start from the seed of an address."""
        self.seed(*address)

    def seed(self, *address: int | str) -> None:
        """Start again, from the seed that `seeds.derive_seed` makes of an address."""
        seed = derive_seed(*address)
        self._python = random.Random(seed).getstate()
        self._numpy: Any = np.random.MT19937(seed)
        self._torch, self._cuda = _seeded_torch_states(seed)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The global generators have this state within the block, and their own again after it."""
        python, numpy, (torch, cuda) = random.getstate(), get_bit_generator(), _torch_states()
        random.setstate(self._python)
        set_bit_generator(self._numpy)
        _set_torch_states(self._torch, self._cuda)
        try:
            yield
        finally:
            self._python, self._numpy, (self._torch, self._cuda) = (
                random.getstate(),
                get_bit_generator(),
                _torch_states(),
            )
            random.setstate(python)
            set_bit_generator(numpy)
            _set_torch_states(torch, cuda)


def _torch_states() -> tuple[Any, tuple[Any, ...]]:
    """States of torch's CPU generator, None if torch is not imported, and of its GPU generators, () before CUDA is initialized."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None, ()
    return torch.get_rng_state(), tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else ()


def _seeded_torch_states(seed: int) -> tuple[Any, tuple[Any, ...]]:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None, ()
    gpus = range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0)
    states = [torch.Generator(device).manual_seed(seed).get_state() for device in ("cpu", *(f"cuda:{i}" for i in gpus))]
    return states[0], tuple(states[1:])


def _set_torch_states(cpu: Any, cuda: tuple[Any, ...]) -> None:
    """Set what is known of the states."""
    if cpu is not None:
        sys.modules["torch"].set_rng_state(cpu)
    if cuda:
        sys.modules["torch"].cuda.set_rng_state_all(cuda)
