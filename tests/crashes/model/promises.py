"""What must never happen, judged when it happens."""

from __future__ import annotations

from tests.crashes.model.world import Row, Worker, World


def judge_grant(world: World, row: Row) -> str:
    """Tokens rise, and nobody loses a lease that lasts."""
    if row.token <= world.top:
        return f"token {row.token} was granted again"
    if any(worker.phase == "running" and worker.living for worker in world.workers):
        return "a living lease was taken from its owner"
    return ""


def judge_run(world: World, worker: Worker) -> str:
    """What was rolled back was never sent."""
    undone = any(sender == (worker.call, "undone") for sender in world.senders)
    return f"{worker.call} was run and had been rolled back" if undone else ""


def judge_completion(world: World, worker: Worker, served: set[str]) -> str:
    """No stale token completes, no generation and no call is completed twice."""
    if worker.token < world.top:
        return f"token {worker.token} completed after token {world.top} was granted"
    if worker.generation in world.done:
        return f"generation {worker.generation} was completed twice"
    if served & world.served:
        return f"{min(served & world.served)} was completed twice"
    return ""
