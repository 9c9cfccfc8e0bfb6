"""The picture of a policy that people can read: lists within lists of questions and actions, which a screen reader reads too."""

import dataclasses
import html
from collections.abc import Sequence
from typing import Any

from cobed.decide import Tree
from cobed.decide.tree import Node, conditions
from cobed.report.figures import COLOURS

# With more leaves than this they stand below each other on wide screens too.
MOST_BESIDE = 4


@dataclasses.dataclass(frozen=True)
class Rules:
    """A tree, and what to say at each of its leaves."""

    tree: Tree
    notes: Sequence[str]

    def html(self) -> str:
        flat = " flat" if len(self.tree.leaves()) <= MOST_BESIDE else ""
        notes = iter(self.notes)

        def shown(node: Node, answer: str) -> str:
            said = f'<span class="answer">{answer}</span>' if answer else ""
            question, ends = _parts(node)
            if question is None:
                action = ends[0]
                own = action % len(COLOURS)
                name, note = html.escape(self.tree.actions[action]), html.escape(next(notes))
                return f'<li>{said}<span class="leaf" style="--own: var(--c{own})"><b>{name}</b> <small>{note}</small></span></li>'
            inner = "".join(shown(end, word) for end, word in zip(ends, ("yes", "no"), strict=True))
            return f'<li>{said}<span class="question">{html.escape(question)}</span><ul>{inner}</ul></li>'

        return f'<ul class="tree{flat}" aria-label="The rules as questions">{shown(self.tree.root, "")}</ul>'

    def markdown(self) -> str:
        notes, lines = iter(self.notes), []

        def add(node: Node, indent: str, answer: str) -> None:
            question, ends = _parts(node)
            if question is None:
                lines.append(f"{indent}- {answer}**{self.tree.actions[ends[0]]}** ({next(notes)})")
                return
            lines.append(f"{indent}- {answer}{question}")
            for end, word in zip(ends, ("yes", "no"), strict=True):
                add(end, f"{indent}  ", f"{word}: ")

        add(self.tree.root, "", "")
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        return {"rules": self.tree.to_json(), "notes": list(self.notes)}


def _parts(node: Node) -> tuple[str | None, tuple[Any, ...]]:
    """A question in words with what follows from yes and no; of a leaf no question, and its action."""
    question = getattr(node, "question", None)
    if question is None:
        return None, (node.action,)  # pyright: ignore[reportAttributeAccessIssue]
    return f"{conditions(((question, True),)).removeprefix('If ')}?", (node.yes, node.no)  # pyright: ignore[reportAttributeAccessIssue]
