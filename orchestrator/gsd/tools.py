"""The gsd toolset: read-only questions about a project's planning and code. Parse, ask the reading process, answer.

Names and shapes are those of the GSD documents (A3, C29). Who answers stands in `orchestrator.gsd.intelligence`, in
another process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from orchestrator.gsd import models as m
from orchestrator.protocol.tool_calls import Arguments, Call, Tool

Ask = Callable[[Call, str, str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""A call, the question, the argument ``project_root``, and the other arguments."""


def build(ask: Ask) -> dict[str, Tool]:
    """The toolset."""

    def tool(name: str, title: str, description: str, arguments: type[Arguments], answer: type[BaseModel]) -> Tool:
        async def run(call: Call, given: Arguments) -> dict[str, Any]:
            asked = given.model_dump()
            return await ask(call, name, asked.pop("project_root"), asked)

        return Tool(
            name, title, description, arguments, answer, run,
            read_only=True, idempotent=True, brief=True, asks_client=True,
        )  # fmt: skip

    tools = (
        tool(
            "gsd_query_intel",
            "Search the code",
            "Search codebase intelligence for files matching a query; each with purpose, type and how it matched.",
            m.QueryArguments,
            m.QueryAnswer,
        ),
        tool(
            "gsd_blast_radius",
            "What a change affects",
            "Analyze what would be affected by changing a file. Call it before editing what others may depend on.",
            m.BlastArguments,
            m.BlastAnswer,
        ),
        tool(
            "gsd_phase_relevant_files",
            "Files for a goal",
            "Files relevant to a phase's goal, with what changing them affects. Call it first when planning.",
            m.RelevantArguments,
            m.RelevantAnswer,
        ),
        tool(
            "gsd_codebase_patterns",
            "How the code does it",
            "Discover existing patterns in the codebase, with examples, so that new code is consistent with them.",
            m.PatternsArguments,
            m.PatternsAnswer,
        ),
        tool(
            "gsd_similar_past_work",
            "Learn from past phases",
            "Find previous phases that did similar work: their approach, lessons, and files created.",
            m.PastArguments,
            m.PastAnswer,
        ),
        tool(
            "gsd_verify_behavior",
            "Verify a behavior",
            "Look for evidence (file:line) that a must-have is true. Runs nothing; says true, false or null.",
            m.BehaviorArguments,
            m.BehaviorAnswer,
        ),
        tool(
            "gsd_verify_artifact",
            "Verify an artifact",
            "Look whether an endpoint, file, export, component or test exists, is more than a stub, and is used.",
            m.ArtifactArguments,
            m.ArtifactAnswer,
        ),
        tool(
            "gsd_requirement_status",
            "Status of a requirement",
            "Where a requirement stands: status, the phases, plans and tasks it is traced to, its verification.",
            m.RequirementArguments,
            m.RequirementAnswer,
        ),
        tool(
            "gsd_phase_status",
            "Status of a phase",
            "Where the current phase (or another) stands: plans, verification, blockers, what is next.",
            m.PhaseArguments,
            m.PhaseAnswer,
        ),
        tool(
            "gsd_pre_edit_check",
            "Check before an edit",
            "Whether an edit is safe: what depends on the file, what would break, how to go about it.",
            m.EditArguments,
            m.EditAnswer,
        ),
        tool(
            "gsd_untraceable_requirements",
            "Requirements without work",
            "Requirements that no phase or plan covers, and plans that name requirements there are not.",
            m.UntraceableArguments,
            m.UntraceableAnswer,
        ),
        tool(
            "gsd_get_conventions",
            "Conventions of the code",
            "Naming, directory and file conventions of the code, of all of it or for one directory.",
            m.ConventionsArguments,
            m.ConventionsAnswer,
        ),
    )
    return {tool.name: tool for tool in tools}
