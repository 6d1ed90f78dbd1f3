-- The tables of a fleet, and what every function uses. Files of one number are one version of the schema, in this order.
--
-- A host has EXECUTE on the functions below and no right on a table. They are SECURITY DEFINER and learn project and
-- host from session_user, so a host can only act as itself; the others are for whoever owns the schema. Each call is a
-- transaction of its own. Arguments by position; `text` of JSON is stored as it was sent, byte for byte.
--
--   join_host(schema int, instance, boot, version text, log_v int, caps text, repository text)
--       -> (project, host, incarnation text, timeline int)
--   beat(instance, boot, caps text, fresh bool, view text | null, known_views text '{"host": n}')
--       -> one row (incarnation text, timeline int, own, homes, hosts, runs, views, asks json)
--          each json an array of arrays with the fields of OwnAgent, HomeAgent, HostRow, RunRow, HostView, Ask in order
--   create_agents(run_id text, agents text '[{base, taken [], host | null, engine, on_host_lost, req, body "json"}]')
--       -> (n int, agent, host, why text, again bool), n from 1 in the order of the agents
--   post(agent, kind, req text, task_id text | null, body text, "limit" int, force bool)
--       -> one row (status, host text, seq bigint, position, unfinished int, life text, body text | null, outcome text)
--   post_all(agents, kinds, reqs, task_ids, bodies text[], limits int[], forces bool[])
--       -> the row of `post` for each, in the order of the arguments
--   take(agents text[], after bigint[], each int)
--       -> (agent text, seq bigint, kind, task_id, req, by_host, at, body text) by agent and seq; `at` is RFC 3339
--   untaken(agents text[], after bigint[], each int)
--       -> (agent text, seq bigint, kind, task_id, at, title text) by agent and seq; at most 80 characters of the title
--   ship(agents text[], fences bigint[], lives text[],                                     -- one element per part
--        parts int[], logs text[], seqs bigint[], types text[], task_ids text[], lines text[]) -- one per line
--       -> (n int, agent, status text, in_seq, out_seq, fence bigint, host text) by n; parts[i] counts from 1
--   ownership(agents text[]) -> (agent, host text, fence bigint)
--   move(dead text) -> (agent, host text, fence bigint, ends bool)
--   read(agent, log text, after bigint, lines int, max_bytes bigint) -> (seq, fence bigint, line text)
--   read_new(agents text[], in_after bigint[], out_after bigint[], each int)
--       -> (agent, log text, seq, fence bigint, line text) by agent, log and seq
--   late(agent text, fence bigint, logs text[], seqs bigint[], lines text[]) -> void
--   late_lines(agent text, after bigint, lines int, max_bytes bigint)
--       -> (n, fence bigint, by_host, log text, seq bigint, line text) by n; `line` is '' if it alone has more bytes
--   take_run(run_id text, gen int) -> one row (run_id, home text, gen int)
--   forget(agents text[]) -> (agent text)
--   ask(to_host, verb, body text, wait_s float8) -> bigint
--   asks() -> (id bigint, by_host, verb, body text, left_s float8)
--   answer(id bigint, answer text) -> void
--   answered(id bigint) -> one row (done bool, answer text | null)
--
-- A log is named 'inbox' or 'outbox'. Refusals:
--
--   OF001 host_unknown   OF002 host_taken   OF003 project_taken   OF004 schema_newer   OF005 schema_older
--   OF006 not_home       OF007 host_alive   OF008 too_early       OF009 unknown_run
--   OF010 bad_argument: no host of ours sends this; what hosts send each other is checked once more where it is read
--
-- Locks are taken in the order project, host, run, agent, queue; of several rows by id. Text that is compared or sorted
-- is in the order of its characters (collate "C"), whatever the database's own order is.

create table meta (
    one bool primary key default true check (one),
    schema int not null,
    min_program int not null, -- programs that know this version of the schema may use a newer one
    incarnation uuid not null default gen_random_uuid(), -- another one after a restore
    timeline int not null -- of the server when numbers were last raised
);

create table project (
    project text collate "C" primary key,
    repository text not null default ''
);

create table host (
    project text collate "C" not null,
    host text collate "C" not null,
    role name not null unique,
    instance text not null default '',
    boot text not null default '',
    version text not null default '',
    log_v int not null default 0,
    caps jsonb not null default '{}',
    joined timestamptz,
    lease_until timestamptz,
    unbroken_since timestamptz,
    draining bool not null default false,
    lost bool not null default false,
    view_n bigint not null default 0, -- here and not in view, which a crash of the server empties
    primary key (project, host)
) with (fillfactor = 50);

create unlogged table view (
    project text collate "C" not null,
    host text collate "C" not null,
    n bigint not null,
    view text not null,
    primary key (project, host)
) with (fillfactor = 50);

create table run (
    project text collate "C" not null,
    run_id text collate "C" not null,
    home text collate "C" not null,
    gen int not null default 1,
    primary key (project, run_id)
);

create table run_home ( -- every home that a run has or had
    project text collate "C" not null,
    host text collate "C" not null,
    run_id text collate "C" not null,
    primary key (project, host, run_id)
);

-- The owner writes agent, callers write queue: neither waits for the other.
create table agent (
    project text collate "C" not null,
    agent text collate "C" not null,
    host text collate "C" not null,
    home text collate "C" not null,
    run_id text collate "C" not null,
    req text collate "C" not null, -- of its create post
    engine text not null,
    on_host_lost text not null,
    fence bigint not null default 1,
    in_seq bigint not null default 0,
    out_seq bigint not null default 0,
    ended bigint not null default 0, -- tasks whose terminal record is in the mirror
    life text not null default 'new',
    log_v int not null,
    late bigint not null default 0, -- number of its last late line
    ends bool not null default false,
    primary key (project, agent),
    unique (project, run_id, req)
) with (fillfactor = 50);
create index agent_host on agent (project, host);
create index agent_home on agent (project, home);
create index agent_live on agent (project, host) where life not in ('failed', 'stopped', 'deleted');

create table queue (
    project text collate "C" not null,
    agent text collate "C" not null,
    host text collate "C" not null,
    next bigint not null default 0, -- the next post has the number after this one
    last bigint not null default 0, -- number of the last post; behind `next` after a restore
    tasks bigint not null default 0,
    closing bool not null default false,
    primary key (project, agent)
) with (fillfactor = 50);

create table post (
    project text collate "C" not null,
    agent text collate "C" not null,
    seq bigint not null,
    kind text not null,
    task_id text collate "C",
    req text collate "C" not null,
    by_host text collate "C" not null,
    at timestamptz not null,
    position int not null,
    body text not null,
    primary key (project, agent, seq),
    unique (project, agent, req)
);
create unique index post_task on post (project, agent, task_id) where kind = 'task';

create table log (
    project text collate "C" not null,
    agent text collate "C" not null,
    log "char" not null, -- i inbox, o outbox
    seq bigint not null,
    fence bigint not null,
    type text not null,
    task_id text collate "C",
    line text not null,
    primary key (project, agent, log, seq)
);
create unique index log_terminal on log (project, agent, task_id)
    where log = 'o' and type in ('result', 'error', 'canceled');

create table late (
    project text collate "C" not null,
    agent text collate "C" not null,
    n bigint not null, -- counts those of the agent
    fence bigint not null,
    by_host text collate "C" not null,
    log text collate "C" not null,
    seq bigint not null,
    line text not null,
    primary key (project, agent, n),
    unique (project, agent, by_host, fence, log, seq)
);

create sequence ask_id; -- not of the unlogged table: a number is never used again, also after a crash
create unlogged table ask (
    id bigint primary key default nextval('orchestrator_fleet.ask_id'),
    project text collate "C" not null,
    to_host text collate "C" not null,
    by_host text collate "C" not null,
    verb text not null,
    body text not null,
    answer text,
    until timestamptz not null
);
create index ask_to on ask (project, to_host, until);

-- Rows that change all the time: cleaned early, by their own number and not by a part of the table.
alter table host set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
alter table agent set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
alter table queue set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

create function db_now() returns timestamptz language sql volatile as $$
    select clock_timestamp() -- not now(): a wait for a lock counts. Tests put another clock here.
$$;

-- The server's timeline, read from its write-ahead log: after a promotion pg_control_checkpoint() lags behind.
create function server_timeline() returns int language sql volatile as $$
    select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
$$;

create function log_name(_log "char") returns text language sql immutable as $$
    select case _log when 'i' then 'inbox' else 'outbox' end
$$;

-- Skip numbers after a restore or a failover: what was lost may have used them. The microseconds of now are also
-- behind what was used between an earlier restore of the same backup and this one. Waits for whoever does it already.
create function raise_numbers(_incarnation uuid default null) returns void
language plpgsql set search_path = orchestrator_fleet, pg_temp as $$
declare
    _timeline int := server_timeline();
    _now bigint := extract(epoch from db_now()) * 1000000;
begin
    perform from meta where _incarnation is not null or timeline <> _timeline for update;
    if not found then
        return;
    end if;
    update meta set timeline = _timeline, incarnation = coalesce(_incarnation, incarnation);
    perform from queue order by project, agent for update;
    update queue set next = greatest(next + 1000000, _now);
    update host set view_n = greatest(view_n + 1000000, _now);
end $$;

-- Who calls.
create function caller(out project text, out host text) language plpgsql as $$
begin
    select one.project, one.host into project, host from host one where one.role = session_user;
    if not found then
        raise exception using errcode = 'OF001', message = format('no host has the role %s', session_user);
    end if;
    perform from meta where timeline <> server_timeline();
    if found then
        perform raise_numbers();
    end if;
end $$;

-- Refuse what no host of ours sends: a host must not be able to stop the others with it.
create function demand(_good bool, _what text) returns void language plpgsql as $$
begin
    if _good is not true then
        raise exception using errcode = 'OF010', message = format('wrong %s', _what);
    end if;
end $$;

create function is_object(_text text) returns bool language plpgsql immutable as $$
begin
    return json_typeof(_text::json) = 'object';
exception when others then -- no JSON, or nested too deeply for the server
    return false;
end $$;

-- What a host says of itself: {"places": n, "engines": []}, each if it likes.
create function are_caps(_text text) returns bool language plpgsql immutable as $$
begin
    return is_object(_text)
        and coalesce(json_typeof(_text::json -> 'engines'), 'array') = 'array'
        and coalesce(json_typeof(_text::json -> 'places'), 'number') = 'number'
        and coalesce((_text::json ->> 'places')::numeric, 0) between 0 and 100000;
end $$;

-- The live host with most free places, at least one; of several the first by name. Null: there is none.
create function most_free(_project text, _engine text, _log_v int, _now timestamptz) returns text language sql as $$
    select one.host from host one,
        lateral (
            select coalesce((one.caps ->> 'places')::int, 0) - count(*) as places from agent
            where agent.project = one.project and agent.host = one.host
                and agent.life not in ('failed', 'stopped', 'deleted')
        ) free
    where one.project = _project and one.lease_until > _now and not one.draining and not one.lost
        and one.caps -> 'engines' ? _engine and one.log_v >= _log_v and free.places > 0
    order by free.places desc, one.host limit 1
$$;

-- Every function that acts for its owner is for hosts, the others are not.
create function grant_host(_role name) returns void
language plpgsql set search_path = orchestrator_fleet, pg_temp as $$
declare
    _function regprocedure;
begin
    execute format('grant usage on schema orchestrator_fleet to %I', _role);
    for _function in
        select oid from pg_proc where pronamespace = 'orchestrator_fleet'::regnamespace and prosecdef
    loop
        execute format('grant execute on function %s to %I', _function, _role);
    end loop;
end $$;
