// The wake channel of an opencode agent: tells the daemon when turns begin and end, and prompts when it says "wake".
//
// opencode loads it into its own process. It must never disturb that: it prints nothing, throws nothing, imports
// nothing but node's own modules, keeps one connection to the daemon's unix socket and comes back when that breaks.
// The first line of a connection is the hello of every hook, then one line per event; the daemon's lines are
// {"answer": "none" | "release" | "wake" | "decide", ...}. "decide" is a human's answer to a permission or a question.

import crypto from "node:crypto"
import fs from "node:fs"
import net from "node:net"
import os from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"

const PROTO = 1
const CUT = 300
const ASKED_MAX = 1 << 20
const ASKED_CUT = 4000
const CALLS_MAX = 100
const RETRY_MS = 1000
const SLOW_MS = 5000
const SETTLE_MS = 5000
const HEED_MS = 5000
const CONTENT = "OPENCODE_CONFIG_CONTENT"
const THEN_TYPE = "; when that is fixed, type any word and Enter in its pane" // as in definition.py
const LIMITS = /rate.?limit|too many requests|quota|usage limit|overloaded|\b429\b/i
const COUNTED = 200
const OURS = ["orchestrator_wait_for_command", "orchestrator_emit_event"]
const HOME = path.dirname(fileURLToPath(import.meta.url))
const RULES = path.join(HOME, "rules.md")
const THEIRS = path.join(HOME, "content.json") // what the user had in OPENCODE_CONFIG_CONTENT

const env = process.env

// The sockets in the project's run directories that are there and safe (project.py), the one in use first. Whether
// somebody holds .agents/lock is not asked: where a stranger's word leads nobody listens, and the other is tried.
function socketPaths() {
  const base = env.ORCHESTRATOR_RUN_BASE || `/tmp/orchestrator-${process.geteuid()}`
  const root = fs.realpathSync(env.ORCHESTRATOR_PROJECT)
  const name = crypto.createHash("sha256").update(root).digest("hex").slice(0, 16)
  const ways = [[base, path.join(base, name)]]
  const state = stateDir()
  if (state) ways.push([state, path.join(state, "run"), path.join(state, "run", name)])
  if (word(path.join(root, ".agents", "lock")) === "state") ways.reverse()
  // The agent's own one first, as project_location.agent_socket names it; the project's where that is not there.
  const own = "a" + crypto.createHash("sha256").update(env.ORCHESTRATOR_AGENT_ID).digest("hex").slice(0, 5)
  const safe = ways.filter((steps) => steps.every(isPrivate)).map((steps) => steps.at(-1))
  return safe.flatMap((directory) => [own, "socket"].map((file) => path.join(directory, file)))
}

function stateDir() {
  if (env.ORCHESTRATOR_STATE_DIR?.startsWith("/")) return env.ORCHESTRATOR_STATE_DIR
  let home = env.HOME
  try {
    home = os.userInfo().homedir
  } catch {
    // a container's user without an entry
  }
  return home?.startsWith("/") ? path.join(home, ".local", "state", "orchestrator") : undefined
}

function isPrivate(step) {
  try {
    const found = fs.lstatSync(step)
    return found.isDirectory() && found.uid === process.geteuid() && !(found.mode & 0o077)
  } catch {
    return false
  }
}

function word(lock) {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants
  let fd
  try {
    fd = fs.openSync(lock, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    const text = Buffer.alloc(64)
    return fs.fstatSync(fd).isFile() ? text.toString("latin1", 0, fs.readSync(fd, text)).split(/\s/)[0] : ""
  } catch {
    return ""
  } finally {
    if (fd !== undefined) fs.closeSync(fd)
  }
}

function ancestors() {
  const pids = []
  for (let pid = process.pid; pid > 1 && pids.length < 64; ) {
    pids.push(pid)
    const stat = fs.readFileSync(`/proc/${pid}/stat`, "latin1")
    pid = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1])
  }
  return pids
}

function hello(conn, boot) {
  const said = {
    proto: PROTO,
    project: fs.realpathSync(env.ORCHESTRATOR_PROJECT),
    conn,
    boot,
    kind: "hook",
    cwd: process.cwd(),
    tmux: env.TMUX,
    tmux_pane: env.TMUX_PANE,
    pids: ancestors(), // tells our opencode from one that the agent has started in its shell
    agent: {
      id: env.ORCHESTRATOR_AGENT_ID,
      epoch: Number(env.ORCHESTRATOR_AGENT_EPOCH),
      secret: env.ORCHESTRATOR_AGENT_SECRET,
    },
  }
  return JSON.stringify({ hello: said }) + "\n"
}

const cut = (text) => String(text ?? "").slice(0, CUT)

class Link {
  constructor() {
    this.client = undefined // of the newest instance: opencode makes the plugin again when it reloads its settings
    this.conn = crypto.randomBytes(8).toString("hex")
    this.boot = 0
    this.missed = 0 // connections in a row that failed: the run directories are tried in turn
    this.turns = 0
    this.socket = undefined
    this.session = undefined // the one the agent speaks in: the last of its sessions that had a turn
    this.turn = "" // the last event that says how the turn stands, told again to a daemon that has just come up
    this.questions = new Map() // id -> [event, data] of the unanswered ones, in order: its dialog shows the first
    this.calls = new Map() // id of a tool call -> its arguments, of the last ones
    this.error = undefined // what the current turn ended with, told behind its end
    this.settling = undefined
    this.spoke = {} // agent and model of the last user message, which a wake keeps
    this.children = new Set() // sessions of subagents
    this.counted = new Map() // id -> figures of the last model requests, told again to a daemon that has just come up
    this.queries = [] // tools of ours that only read: an agent of some roles has them, and its subagents too
    this.connect()
  }

  connect() {
    let socket
    let got = ""
    let pause = RETRY_MS
    try {
      const found = socketPaths()
      socket = net.createConnection(found[this.missed % found.length])
      this.missed += 1
    } catch {
      this.later(SLOW_MS)
      return
    }
    socket.setEncoding("utf8")
    socket.on("error", () => {})
    socket.on("connect", () => {
      this.socket = socket
      this.missed = 0
      this.boot += 1
      try {
        socket.write(hello(this.conn, this.boot))
        this.tell("start", { source: this.boot > 1 ? "reconnect" : "startup" })
        if (this.turn) this.tell(this.turn)
        for (const asked of this.questions.values()) this.tell(...asked)
        for (const figures of this.counted.values()) this.tell("message.counted", figures)
      } catch {
        socket.destroy()
      }
    })
    socket.on("data", (text) => {
      got += text
      const lines = got.split("\n")
      got = lines.pop()
      for (const line of lines) {
        try {
          const said = JSON.parse(line)
          if (said.hello?.error) pause = SLOW_MS
          if (said.answer === "wake") this.wake(said.reason).catch(() => {})
          if (said.answer === "decide") this.decide(said).catch(() => {})
        } catch {
          // no line of ours
        }
      }
    })
    socket.on("close", () => {
      if (this.socket === socket) this.socket = undefined
      this.later(pause)
    })
    socket.unref()
  }

  later(ms) {
    setTimeout(() => this.connect(), ms).unref()
  }

  tell(event, data = {}) {
    if (!this.socket) return
    this.socket.write(JSON.stringify({ event, session: this.session ?? null, data }) + "\n")
  }

  turned(event) {
    this.turn = event
    this.tell(event)
  }

  async wake(reason) {
    if (this.turn === "session.busy") {
      this.tell("session.busy") // a human was faster; the end of this turn asks again
      return
    }
    if (this.session && reason) await this.prompt(reason)
  }

  async resume({ session, prompt, model }) {
    this.session = session
    const [providerID, ...rest] = (model ?? "").split("/")
    if (rest.length) this.spoke = { model: { providerID, modelID: rest.join("/") } }
    await this.prompt(prompt)
  }

  async prompt(text) {
    const body = { parts: [{ type: "text", text }], ...this.spoke }
    const send = () => this.client.session.promptAsync({ path: { id: this.session }, body })
    const turns = this.turns
    const done = await send()
    if (done?.error) this.tell("session.error", { message: cut(`refused a prompt: ${JSON.stringify(done.error)}`) })
    // A prompt into the last moment of a turn stands in the conversation and starts nothing.
    else setTimeout(() => this.turns === turns && send().catch(() => {}), HEED_MS).unref()
  }

  happened({ type, properties: said = {} }) {
    const id = said.sessionID ?? said.info?.sessionID
    if (type === "session.created" && said.info?.parentID) this.children.add(said.info.id)
    else if (type === "permission.asked") this.asked(said)
    else if (type === "question.asked") {
      const message = cut(`asks a question: ${said.questions?.[0]?.question}`)
      this.ask(said.id, "question.asked", { kind: "dialog", message, questions: said.questions, cwd: process.cwd() })
    } else if (["permission.replied", "question.replied", "question.rejected"].includes(type)) {
      const [first] = this.questions.keys()
      const request = said.requestID ?? said.permissionID ?? first
      if (this.questions.delete(request)) this.tell("permission.replied", { request })
    } else if (type === "message.updated" && said.info?.role === "assistant") this.count(said.info)
    else if (!id || this.children.has(id)) return
    else if (type === "session.status") this.status(id, said.status ?? {})
    else if (type === "session.error") this.failed(said.error ?? {})
    else if (type === "message.updated" && said.info?.role === "user") {
      this.session = id
      const { agent, model, variant } = said.info
      this.spoke = {
        ...(agent && { agent }),
        ...(model?.modelID && { model: { providerID: model.providerID, modelID: model.modelID } }),
        ...((variant ?? model?.variant) && { variant: variant ?? model.variant }),
      }
    }
  }

  status(id, { type, message, next, attempt }) {
    if (type === "idle") {
      if (id !== this.session || this.turn !== "session.busy") return
      if (this.settling || !(this.error || this.aborted)) this.ended()
      // After an error it says so twice, and until the second time a prompt would start nothing.
      else this.settling = setTimeout(quiet(() => this.ended()), SETTLE_MS).unref()
      return
    }
    if (type === "busy") {
      this.settled()
      this.session = id
      if (this.turn !== "session.busy") {
        this.turns += 1
        this.turned("session.busy")
      }
      this.aborted = false
      this.error = undefined
    } else if (type === "retry") {
      const until = Number.isFinite(next) ? new Date(next).toISOString() : undefined
      const kind = LIMITS.test(message) ? "rate_limit" : "api_error"
      this.tell("session.retry", { kind, message: cut(`${message} (attempt ${attempt})`), until })
    }
  }

  // opencode updates a message many times; its tokens are there once the model has answered.
  count({ id, modelID, cost, tokens, time }) {
    if (!id || !(tokens?.input || tokens?.output || tokens?.cache?.read)) return
    const { input, output, reasoning, cache } = tokens
    const at = new Date(time?.created ?? Date.now()).toISOString()
    const counted = { input, output, reasoning, cache: { read: cache?.read, write: cache?.write } }
    const figures = { id, model: modelID, cost, at, tokens: counted }
    if (JSON.stringify(this.counted.get(id)) === JSON.stringify(figures)) return
    this.counted.set(id, figures)
    if (this.counted.size > COUNTED) this.counted.delete(this.counted.keys().next().value)
    this.tell("message.counted", figures)
  }

  settled() {
    clearTimeout(this.settling)
    this.settling = undefined
  }

  ended() {
    this.settled()
    this.questions.clear()
    this.turned(this.aborted ? "session.interrupted" : "session.idle")
    if (this.error) this.tell("session.error", this.error)
  }

  failed({ name, data = {} }) {
    if (name === "MessageAbortedError") {
      this.aborted = true
      return
    }
    const status = data.statusCode
    let kind = "api_error"
    if (name === "ProviderAuthError" || status === 401 || status === 403) kind = "login"
    else if (status === 429 || LIMITS.test(data.message)) kind = "rate_limit"
    else if (name === "ContextOverflowError") kind = "context_full"
    const next = kind === "login" ? THEN_TYPE : ""
    this.error = { kind, message: cut(data.message || name).slice(0, CUT - 100) + next }
    if (this.turn !== "session.busy") this.tell("session.error", this.error)
  }

  asked({ id, sessionID, permission, patterns = [], metadata = {}, tool }) {
    if ((OURS.includes(permission) && !this.children.has(sessionID)) || this.queries.includes(permission)) {
      // The user's agent definition may ask for every tool; ours need no consent.
      const answer = { path: { id: sessionID, permissionID: id }, body: { response: "once" } }
      this.client.postSessionIdPermissionsPermissionId(answer).catch(() => {})
      return
    }
    const args = this.calls.get(tool?.callID)
    this.ask(id, "permission.asked", { tool_name: permission, metadata, patterns, args, cwd: process.cwd() })
  }

  ask(id, event, data) {
    if (JSON.stringify(data).length > ASKED_MAX) {
      const { tool_name, metadata, patterns = [], kind, message } = data
      const { command, filepath } = metadata ?? {}
      const begins = { command: command?.slice(0, ASKED_CUT), filepath: filepath?.slice(0, ASKED_CUT) }
      const asked = { tool_name, metadata: begins, patterns: [patterns.join(", ").slice(0, ASKED_CUT)] }
      data = { ...(tool_name ? asked : { kind, message }), cut: true }
    }
    const told = [event, { request: id, ...data }]
    this.questions.set(id, told)
    this.tell(...told)
  }

  // A human's answer from elsewhere; the dialog may have been answered meanwhile, and then this one is refused.
  async decide({ request, reply, message, answers }) {
    const [event] = this.questions.get(request) ?? []
    const [url, body] =
      event === "permission.asked"
        ? [reply && "/permission/{requestID}/reply", { reply, message }]
        : [answers ? "/question/{requestID}/reply" : reply && "/question/{requestID}/reject", { answers }]
    if (!event || !url) return
    const headers = { "Content-Type": "application/json" }
    await this.client._client.post({ url, path: { requestID: request }, body, headers })
  }

  began({ callID }, { args }) {
    this.calls.set(callID, args)
    if (this.calls.size > CALLS_MAX) this.calls.delete(this.calls.keys().next().value)
  }
}

const quiet =
  (what) =>
  (...given) => {
    try {
      return what(...given)
    } catch {
      return undefined
    }
  }

export const Orchestrator = async ({ client }, options) => {
  if (!env.ORCHESTRATOR_AGENT_ID || !env.ORCHESTRATOR_PROJECT) return {}
  const known = Symbol.for("orchestrator.link")
  const first = !globalThis[known]
  const link = (globalThis[known] ??= new Link())
  link.client = client
  link.queries = options?.queries ?? []
  // What only bounded opencode's own npm is not for the commands that the agent runs.
  for (const name of options?.forget ?? []) delete env[name]
  // Its own --prompt does nothing together with --session.
  if (first && options?.resume) link.resume(options.resume).catch(() => {})
  return {
    event: quiet(({ event }) => link.happened(event)),
    // A subagent that the agent starts shares its settings, not its part: neither its rules nor its two tools.
    "experimental.chat.system.transform": async ({ sessionID }, output) => {
      if (!link.children.has(sessionID)) return
      try {
        const rules = `Instructions from: ${RULES}\n${fs.readFileSync(RULES, "utf8")}`
        for (const [at, text] of output.system.entries()) output.system[at] = text.replace(rules, () => "")
      } catch {
        // the rules stay
      }
    },
    // What the agent runs in its shell gets the user's settings, not those of an agent.
    "shell.env": async (_, output) => {
      try {
        output.env[CONTENT] = fs.existsSync(THEIRS) ? fs.readFileSync(THEIRS, "utf8") : ""
      } catch {
        // it keeps ours
      }
    },
    "tool.execute.before": async (call, output) => {
      const { tool, sessionID } = call
      quiet(() => link.began(call, output))()
      if (OURS.includes(tool) && link.children.has(sessionID)) {
        throw new Error("This tool belongs to the agent that started you. Do your work and answer with its result.")
      }
    },
  }
}
