// The pages in the browser: reads the token, follows the stream of a page, sends answers. Loads nothing else.
"use strict";

(() => {
  const KEY = "orchestrator-token";
  const SILENT_MS = 40000; // the server sends a sign of life every 15 s
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("orchestrator", { createHTML: (html) => html })
    : { createHTML: (html) => html };
  const main = document.getElementById("main");
  const trouble = document.getElementById("trouble");
  const dialog = document.getElementById("decision");
  let stream = null;
  let heardAt = 0; // when the stream was opened or last sent something; 0 without a stream
  let retryMs = 500;
  let pending = null;
  let late = null; // updates that came while a button is pressed; null while none is
  let pressedAt = 0;

  // -- the token: in the address once, then in this tab only -----------------------------------------------------

  async function takeToken() {
    const words = new URLSearchParams(location.hash.slice(1));
    if (words.has("t")) sessionStorage.setItem(KEY, words.get("t"));
    if (words.has("t") || words.has("c")) history.replaceState(null, "", location.pathname + location.search);
    if (words.has("c")) await exchange(words.get("c"));
  }

  async function exchange(code) {
    const answer = await post("/code", { code });
    if (answer.token) sessionStorage.setItem(KEY, answer.token);
    else say(answer.error);
    return Boolean(answer.token);
  }

  const headers = () => ({ Authorization: `Bearer ${sessionStorage.getItem(KEY) || ""}` });

  async function post(path, value) {
    try {
      const response = await fetch(path, {
        method: "POST",
        headers: { ...headers(), "Content-Type": "application/json" },
        body: JSON.stringify(value),
        redirect: "error",
      });
      return await response.json();
    } catch {
      return { error: { message: "orchestrator web does not answer", next_step: "start it again in a terminal" } };
    }
  }

  function say(error) {
    trouble.hidden = !error;
    trouble.textContent = error ? [error.message, error.next_step].filter(Boolean).join(": ") : "";
  }

  function askForToken() {
    const form = element("form", { className: "code" });
    const field = element("input", { id: "code", autocomplete: "off", autocapitalize: "characters", required: true });
    form.append(
      element("h1", { textContent: "This page needs a token" }),
      element("p", { textContent: "Open the link that orchestrator web printed, or type the one-time code it shows." }),
      element("label", { textContent: "One-time code ", htmlFor: "code" }),
      field,
      element("button", { type: "submit", textContent: "Open" }),
    );
    form.addEventListener("submit", async (submitted) => {
      submitted.preventDefault();
      if (await exchange(field.value)) open();
    });
    main.replaceChildren(form);
  }

  function element(tag, values) {
    return Object.assign(document.createElement(tag), values);
  }

  // -- the stream of the page that is shown ----------------------------------------------------------------------

  function query() {
    const given = new URLSearchParams(location.search);
    const agent = /^\/agents\/(.+)$/.exec(location.pathname);
    const wanted = new URLSearchParams({ view: agent ? "agent" : location.pathname.slice(1) || "team" });
    if (agent) wanted.set("agent", decoded(agent[1]));
    for (const name of ["tab", "run", "find", "file"]) if (given.get(name)) wanted.set(name, given.get(name));
    return wanted;
  }

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  async function open() {
    if (stream) stream.abort();
    const own = (stream = new AbortController());
    heardAt = Date.now();
    for (const link of document.querySelectorAll("[data-page]")) {
      if (link.dataset.page === location.pathname) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    try {
      const response = await fetch(`/events?${query()}`, { headers: headers(), signal: own.signal, redirect: "error" });
      if (!response.ok) {
        const { error } = await response.json();
        say(error);
        heardAt = 0;
        if (response.status === 401) return askForToken();
        if (response.status < 429) return;
        throw new Error(error.message);
      }
      await follow(response.body.pipeThrough(new TextDecoderStream()).getReader());
      throw new Error("the stream has ended");
    } catch {
      if (own.signal.aborted) return;
      heardAt = 0;
      sayNoConnection();
      setTimeout(() => own === stream && !document.hidden && open(), retryMs);
      retryMs = Math.min(retryMs * 2, 10000);
    }
  }

  function sayNoConnection() {
    if (trouble.hidden) say({ message: "No connection", next_step: "trying again" });
  }

  // A connection that a sleep or a tunnel has cut ends without an event: an old page must not look live.
  function checkSilence() {
    if (!heardAt || Date.now() - heardAt < SILENT_MS) return;
    sayNoConnection();
    open();
  }

  async function follow(reader) {
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      heardAt = Date.now();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) take(block);
    }
  }

  function take(block) {
    const match = /^event: (\w+)\ndata: (.*)$/.exec(block);
    if (!match) return;
    const value = JSON.parse(match[2]);
    if (match[1] === "access") document.body.dataset.scope = value.scope;
    if (match[1] !== "page") return;
    say(null);
    retryMs = 500;
    if (late) late.push(value);
    else show(value);
  }

  // A button that is replaced or moves between press and release loses its click.
  function release() {
    const values = late || [];
    late = null;
    values.forEach(show);
  }

  // -- parts -----------------------------------------------------------------------------------------------------

  function parsed(html) {
    const template = document.createElement("template");
    template.innerHTML = policy.createHTML(html);
    return template.content;
  }

  function show({ frame, slots }) {
    if (frame !== undefined) main.replaceChildren(parsed(frame));
    for (const [name, { order, parts }] of Object.entries(slots)) {
      const slot = document.querySelector(`[data-slot="${CSS.escape(name)}"]`);
      if (slot) fill(slot, order, parts);
    }
    const summary = document.querySelector("[data-title]");
    if (summary) document.title = `${summary.dataset.title} – orchestrator`;
    const waiting = Number(document.querySelector("[data-waiting]")?.dataset.waiting || 0);
    document.querySelector('[data-page="/inbox"]').textContent = waiting ? `Inbox (${waiting})` : "Inbox";
    count();
    checkPending();
  }

  function fill(slot, order, parts) {
    const known = new Map([...slot.children].map((part) => [part.dataset.key, part]));
    let place = slot.firstElementChild;
    for (const key of order) {
      let part = known.get(key);
      known.delete(key);
      if (parts[key] !== undefined) {
        const fresh = parsed(parts[key]).firstElementChild;
        if (part) {
          keep(part, fresh);
          if (place === part) place = fresh;
          replace(part, fresh);
        }
        part = fresh;
      }
      if (!part) continue;
      if (part === place) place = place.nextElementSibling;
      else slot.insertBefore(part, place);
    }
    for (const part of known.values()) part.remove();
  }

  // What a person has opened, scrolled, chosen or typed stays when a part is made anew.
  function keep(part, fresh) {
    const pairs = (selector) => {
      const now = fresh.querySelectorAll(selector);
      return [...part.querySelectorAll(selector)].map((old, at) => [old, now[at]]).filter((pair) => pair[1]);
    };
    for (const [old, now] of pairs("details")) now.open = old.open;
    for (const [old, now] of pairs("input, textarea")) {
      now.value = old.value;
      now.checked = old.checked;
    }
    fresh.scrolls = pairs("pre, .scroll").map(([old, now]) => [now, old.scrollTop, old.scrollLeft]);
  }

  function replace(part, fresh) {
    const focusable = "a, button, input, textarea, select, summary, pre, [tabindex]";
    const focused = [...part.querySelectorAll(focusable)].indexOf(document.activeElement);
    part.replaceWith(fresh);
    for (const [box, top, left] of fresh.scrolls || []) box.scrollTo(left, top);
    if (focused >= 0) fresh.querySelectorAll(focusable)[focused]?.focus({ preventScroll: true });
  }

  function count() {
    for (const time of document.querySelectorAll("time[data-age]")) {
      const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
      const [size, letter] = [[86400, "d"], [3600, "h"], [60, "m"]].find((pair) => seconds >= pair[0]) || [1, "s"];
      const text = `${Math.floor(seconds / size)}${letter}`;
      if (time.textContent !== text) time.textContent = text;
    }
    for (const time of document.querySelectorAll("time[data-moment]")) {
      const text = new Date(time.dateTime).toLocaleString();
      if (time.textContent !== text) time.textContent = text;
    }
  }

  // -- answers ---------------------------------------------------------------------------------------------------

  const WORDS = {
    approve: ["Approve this?", "Approve"],
    always: ["Always allow exactly this, in this project?", "Always allow"],
    deny: ["Deny this?", "Deny"],
    answer: ["Answer this", "Send"],
    release: ["Let the agent ask in its pane?", "Ask in its pane"],
    dismiss: ["Take this out of the inbox?", "Dismiss"],
  };

  function decide(item, decision) {
    const [title, word] = WORDS[decision];
    const heading = element("h2", { id: "decision-title", textContent: title });
    const facts = [...item.querySelectorAll("h2, .facts, .asked")].map((part) => part.cloneNode(true));
    for (const part of facts) part.removeAttribute("id");
    const form = element("form", { method: "dialog" });
    const groups = [...item.querySelectorAll("fieldset")];
    const chosen = groups.map((group, at) => (groups.length > 1 ? `${at + 1}: ${labels(group)}` : labels(group))).join("\n");
    const field = element("textarea", { id: "words", rows: 3, maxLength: 20000, value: decision === "answer" ? chosen : "" });
    const name = decision === "deny" ? "Reason, which the agent reads (optional)" : "Answer";
    if (decision === "deny" || decision === "answer") form.append(element("label", { htmlFor: "words", textContent: name }), field);
    const result = element("p", { className: "result" });
    result.setAttribute("role", "alert");
    const send = element("button", { type: "submit", textContent: word, className: `main ${decision}` });
    const back = element("button", { type: "button", textContent: "Cancel" });
    back.addEventListener("click", () => dialog.close());
    form.append(result, element("p", { className: "answers" }));
    form.lastElementChild.append(send, back);
    form.addEventListener("submit", async (submitted) => {
      submitted.preventDefault();
      send.disabled = true;
      own.sending = true;
      const answer = await post("/answer", { item: item.dataset.item, decision, text: field.value });
      own.sending = false;
      if (!answer.error) return own === pending && dialog.close();
      result.textContent = [answer.error.message, answer.error.next_step].filter(Boolean).join(": ");
      send.disabled = answer.error.code === "item_over";
    });
    const own = (pending = { id: item.dataset.item, send, result, sending: false });
    dialog.replaceChildren(heading, ...facts, form);
    dialog.showModal();
    (decision === "deny" || decision === "answer" ? field : back).focus();
  }

  const labels = (group) => [...group.querySelectorAll("input:checked")].map((input) => input.value).join(", ");

  // An item that is over or has changed while its dialog is open cannot be answered there. The page may get the
  // update after the dialog's own answer before the answer's reply.
  function checkPending() {
    if (!pending || !dialog.open || pending.sending) return;
    if (document.querySelector(`main [data-item="${CSS.escape(pending.id)}"]`)) return;
    pending.send.disabled = true;
    pending.result.textContent = "This was answered elsewhere, or has changed.";
  }

  // -- what a person does ----------------------------------------------------------------------------------------

  function go(path) {
    dialog.close();
    history.pushState(null, "", path);
    main.focus({ preventScroll: true });
    open();
  }

  document.addEventListener("click", (click) => {
    const target = click.target.closest("a[href^='/'], button[data-decision], button[data-download]");
    if (!target || click.ctrlKey || click.metaKey || click.shiftKey) return;
    if (target.dataset.decision) decide(target.closest("[data-item]"), target.dataset.decision);
    else if (target.dataset.download) download(target);
    else {
      click.preventDefault();
      go(target.getAttribute("href"));
    }
  });

  document.addEventListener("change", (change) => {
    if (change.target.dataset.go) go(change.target.dataset.go + encodeURIComponent(change.target.value));
    if (change.target.dataset.find === undefined) return;
    const words = new URLSearchParams(location.search);
    words.set("find", change.target.value);
    go(`${location.pathname}?${words}`);
  });

  async function download(button) {
    const response = await fetch(button.dataset.download, { headers: headers(), redirect: "error" });
    if (!response.ok) return say((await response.json()).error);
    const link = element("a", { href: URL.createObjectURL(await response.blob()), download: button.dataset.name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  document.addEventListener("pointerdown", () => {
    late = late || [];
    pressedAt = Date.now();
  }, true);
  for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, () => setTimeout(release), true);
  window.addEventListener("blur", release);

  // A page that nobody sees follows nothing: the daemon looks at no screen for it.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return open();
    if (stream) stream.abort();
    heardAt = 0;
  });
  window.addEventListener("popstate", () => {
    dialog.close();
    open();
  });
  window.addEventListener("hashchange", () => takeToken().then(open));
  setInterval(() => {
    if (late && Date.now() - pressedAt > 5000) release(); // released outside of the page
    if (document.hidden) return;
    count();
    checkSilence();
  }, 1000);
  takeToken().then(open);
})();
