"""What clients may ask of each tool: types, limits, and the words of older clients."""

from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints

from resolvent.exploring import MAX_BRANCHES, MAX_PROMPTS

MAX_WAIT_S = 600
Name = Annotated[str, StringConstraints(min_length=1, max_length=400)]
Prompt = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]


class Arguments(BaseModel):
    """Strict about types and, since clients of several ages call, deaf to keys it does not know."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class Explore(Arguments):
    """What is to be explored, from where, by whom and how often."""

    shared_prompt_sequence: list[Prompt] = Field(
        min_length=1,
        max_length=MAX_PROMPTS,
        description="The prompts, a list even for one. An agent answers them one after the other in the same branch.",
    )
    parent_branch_id: str = Field(
        default="",
        max_length=400,
        validation_alias=AliasChoices("parent_branch_id", "source_snap"),
        description="A branch to fork: its id, or the id of its latest snapshot. Or a git commit or branch, or nothing"
        " for the repository's default branch.",
    )
    num_branches: int = Field(
        default=1,
        ge=1,
        le=MAX_BRANCHES,
        validation_alias=AliasChoices("num_branches", "parallels_num"),
        description="How many siblings are made, each with an agent of its own.",
    )
    agent: str = Field(default="", max_length=200, description="An agent that the repository's configuration defines.")
    project_name: str = Field(default="", max_length=200, description="Any name: branches can be listed by it.")


class OfBranch(Arguments):
    """One branch."""

    branch_id: Name = Field(description="The branch: its id, its name, or the id of its latest snapshot.")


class Output(OfBranch):
    """How much of what its agent printed."""

    full_output: bool = Field(default=False, description="All of it; else the end, where results are.")


class File(OfBranch):
    """One file of a branch."""

    file_path: Annotated[str, StringConstraints(min_length=1, max_length=4096)] = Field(
        description="Relative to the root of the repository, or below /workspace."
    )


class Wait(OfBranch):
    """How long to wait for a branch."""

    timeout_seconds: float = Field(
        default=25.0, ge=0, le=MAX_WAIT_S, description="Answer after this time even if its agent still works."
    )


class Listing(Arguments):
    """Which branches."""

    project_name: str = Field(default="", max_length=200, description="Of this project only.")
    status: str = Field(default="", max_length=40, description="In this status only.")
    limit: int = Field(default=50, ge=1, le=1000, description="The newest so many.")
