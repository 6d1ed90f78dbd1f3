"""Small source trees, a plain code graph, and snapshots of them, for what reads source (verification, patterns, ranking)."""

from pathlib import Path

from orchestrator.gsd.graph.protocol import Hit, Located, Node, Reached
from orchestrator.gsd.graph_snapshot import Snapshot
from orchestrator.gsd.model import (
    Artifact,
    Intel,
    KeyLink,
    MustHaves,
    Phase,
    Plan,
    Planning,
    Row,
    Summary,
    Verification,
)
from tests.support.gsd_trees import write


class PlainGraph:
    """A code graph of nodes and edges as given; as slow as it is short."""

    def __init__(self, nodes=(), edges=()):
        self.nodes = {node.id: node for node in nodes}
        self._edges = list(edges)
        self.edges = len(self._edges)
        self.dangling = 0

    def locate(self, text):
        found = [node for node in self.nodes.values() if text in {node.id, node.path}]
        return Located(found[0] if found else None)

    def dependents(self, node_id):
        return iter([(self.nodes[a], "entity") for a, b in self._edges if b == node_id])

    def dependencies(self, node_id):
        return iter([(self.nodes[b], "entity") for a, b in self._edges if a == node_id])

    def dependents_count(self, node_id):
        return sum(1 for _ in self.dependents(node_id))

    def may_be_meant(self, node_id):
        return False  # its edges are given by id

    def reach(self, node_id, max_depth):
        found, edge, seen = [], [node_id], {node_id}
        for depth in range(1, max_depth + 1):
            after = sorted({a for a, b in self._edges if b in edge} - seen)
            seen |= set(after)
            found += [Reached(self.nodes[one], depth, "entity") for one in after]
            edge = after
        return found

    def hotspots(self, limit):
        ranked = sorted(((n, self.dependents_count(n.id)) for n in self.nodes.values()), key=lambda pair: -pair[1])
        return [pair for pair in ranked if pair[1]][:limit]

    def search(self, keywords, types=frozenset(), limit=50):
        hits = []
        for node in self.nodes.values():
            why = [f"path: {word}" for word in keywords if word in node.path.lower()]
            score = 10 * len(why)
            told = [f"purpose: {word}" for word in keywords if word in node.purpose.lower()]
            if why or told:
                hits.append(Hit(node, score + 15 * len(told), self.dependents_count(node.id), tuple(why + told)))
        return sorted(hits, key=lambda hit: (-hit.score, -hit.dependents, hit.node.path))[:limit]


def snapshot(root: Path, planning: Planning | None = None, graph=None, intel: Intel | None = None) -> Snapshot:
    """A snapshot of a tree."""
    return Snapshot(root, planning, graph or PlainGraph(), intel or Intel(), lambda _: None, lambda _: [])


EXPRESS = {
    "package.json": '{"name": "shop"}',
    "src/app.ts": """import express from 'express';
import { authRouter } from './routes/auth';
import orders from './routes/orders';
import { requireAuth } from './middleware/requireAuth';

const app = express();
app.use(express.json());
app.use('/api/auth', authRouter);
app.use('/api/orders', requireAuth, orders);
app.get('/health', (req, res) => res.json({ ok: true }));
// app.get('/ghost', (req, res) => res.end());
app.listen(3000);
""",
    "src/routes/auth.ts": """import { Router } from 'express';
import { sendResetMail } from '../services/mail';
import { requireAuth, limit } from '../middleware/requireAuth';

export const authRouter = Router();

// Users reset their password with a link that is sent by email.
authRouter.post(
  '/reset-password',
  limit(5),
  async (req, res) => {
    const { email } = req.body;
    await sendResetMail(email);
    res.status(202).end();
  },
);
authRouter.route('/me').get(requireAuth, (req, res) => res.json(req.user)).delete(requireAuth, (req, res) => res.end());
""",
    "src/routes/orders.ts": """import express from 'express';
const router = express.Router();
router.get('/:orderId/items', (req, res) => res.json([]));
export default router;
""",
    "src/middleware/requireAuth.ts": """import type { Request } from 'express';
const API_KEY = "sk-live-abcdefgh12345678";
export function requireAuth(req: Request, res: any, next: any) {
  if (!req.headers.authorization) return res.status(401).end();
  next();
}
export const limit = (times: number) => (req: any, res: any, next: any) => next();
""",
    "src/services/mail.ts": """import nodemailer from 'nodemailer';
const transport = nodemailer.createTransport({});
export class MailError extends Error {}
/** Sends the link with which a user resets the password. */
export async function sendResetMail(email: string): Promise<void> {
  const link = makeResetLink(email);
  try {
    await transport.sendMail({ to: email, text: link });
  } catch (error) {
    throw new MailError('mail was not sent');
  }
}
function makeResetLink(email: string): string {
  return `https://shop.test/reset?email=${email}`;
}
""",
    "src/services/lonely.ts": """export function lonelyService(a: number): number {
  const b = a + 1;
  return b * 2;
}
""",
    "src/services/stub.ts": """export function stubService() {
  // TODO: write this
  return null;
}
""",
    "tests/auth.test.ts": """import { describe, it } from 'vitest';
describe('reset password', () => {
  it('sends users an email with a link', async () => { expect(await sent()).toBe(1); });
  it.skip('locks the account after 5 attempts', () => {});
});
""",
}

FASTAPI = {
    "app/__init__.py": "",
    "app/main.py": """from fastapi import FastAPI
from app.routers import todos, users as people
from app.settings import API_PREFIX

app = FastAPI()
app.include_router(todos.router, prefix="/api")
app.include_router(people.router, prefix="/api/users")


@app.get("/health")
async def health() -> dict:
    return {"ok": True}
""",
    "app/routers/__init__.py": "",
    "app/routers/todos.py": '''"""Routes of todos. @router.get("/ghost") is no route."""
from fastapi import APIRouter, Depends
from app.deps import current_user
from app.store import TodoRepository

router = APIRouter(prefix="/todos")


@router.post("/", dependencies=[Depends(current_user)])
async def create_todo(title: str) -> dict:
    return TodoRepository().add(title)


@router.get("/{todo_id}")
def read_todo(todo_id: int):
    return TodoRepository().get(todo_id)
''',
    "app/routers/users.py": """from fastapi import APIRouter
router = APIRouter()

@router.get("/me")
def me():
    raise NotImplementedError
""",
    "app/deps.py": "def current_user():\n    return 'someone'\n",
    "app/settings.py": 'API_PREFIX = "/api"\n',
    "app/store.py": """class TodoRepository:
    items = {}

    def add(self, title):
        self.items[len(self.items)] = title
        return {"title": title}

    def get(self, todo_id):
        return self.items[todo_id]


class UserRepository:
    pass
""",
    "tests/conftest.py": "import pytest\n\n@pytest.fixture\ndef client():\n    return object()\n\n@pytest.fixture\ndef todo():\n    return 1\n",
    "tests/test_todos.py": """import pytest

def test_user_creates_todo(client):
    assert client

@pytest.mark.skip
def test_user_deletes_todo(client):
    assert client
""",
}

NEXT = {
    "app/api/users/[id]/route.ts": "export async function GET() {\n  return Response.json({})\n}\nexport const PATCH = async () => Response.json({})\n",
    "app/(shop)/api/cart/route.ts": "const handler = () => new Response()\nexport { handler as POST }\n",
    "pages/api/legacy.ts": "export default function handler(req, res) {\n  if (req.method !== 'POST') return res.status(405).end()\n  res.end()\n}\n",
    "src/routes/feed/+server.ts": "export const GET = () => new Response('')\n",
    "components/LoginForm.tsx": "export default function LoginForm() {\n  return null\n}\n",
}

AXUM = {
    "src/main.rs": """mod routes;
use axum::Router;

#[tokio::main]
async fn main() {
    let app = Router::new().nest("/api/v1", routes::todos::router());
    axum::serve(listener(), app).await.unwrap();
}
""",
    "src/routes/mod.rs": "pub mod todos;\n",
    "src/routes/todos.rs": """use axum::{routing::{get, post}, Router};

pub fn router() -> Router {
    Router::new()
        .route("/todos", get(list).post(create))
        .route("/todos/{id}", get(show))
}

async fn list() -> &'static str { "[]" }
// .route("/ghost", get(list))

#[cfg(test)]
mod tests {
    #[test]
    fn lists_todos() {}
}
""",
}

MUST = MustHaves(
    truths=("Users can reset their password via email",),
    artifacts=(
        Artifact(
            "src/routes/auth.ts", "reset route", min_lines=10, exports=("authRouter",), contains="reset-password"
        ),
        Artifact("src/services/mail.ts", "mail", exports=("sendResetMail",)),
    ),
    key_links=(KeyLink("src/routes/auth.ts", "src/services/mail.ts", "call", r"sendResetMail\("),),
)


def planning(
    *, rows=(), must=MUST, status="passed", human=(), gaps_closed=False, summary=True, verified="2026-01-17T16:00:00Z"
):
    """One phase with one plan, verified as told: rows are (truth, status)."""
    done = Summary(file=".planning/phases/01-auth/01-01-SUMMARY.md", plan_id="01-01") if summary else None
    plans = [
        Plan(id="01-01", file=".planning/phases/01-auth/01-01-PLAN.md", phase="1", must_haves=must, summary=done)
    ]
    if gaps_closed:
        plans.append(Plan(id="01-02", file="p", phase="1", gap_closure=True, summary=done))
    report = Verification(
        file=".planning/phases/01-auth/01-VERIFICATION.md",
        status=status,
        verified=verified,
        truths=tuple(Row(what, how, line=number) for number, (what, how) in enumerate(rows, 10)),
        human=tuple(human),
    )
    return Planning(
        phases=(Phase(number="1", name="Auth", plans=tuple(plans), verification=report if rows or human else None),)
    )


__all__ = ["AXUM", "EXPRESS", "FASTAPI", "MUST", "NEXT", "Node", "PlainGraph", "planning", "snapshot", "write"]
