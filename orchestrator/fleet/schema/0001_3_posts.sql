-- Calls for agents: agents are created, posts are accepted, and owners take them. A post is accepted by its commit.
--
-- Each writing function locks a row before it reads, even if it only repeats an earlier answer. A commit after a row
-- lock waits for the disk and for a synchronous standby. So a repeated answer is as durable as the first one.

create function create_agents(_run_id text, _agents text)
returns table (n int, agent text, host text, why text, again bool)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
    _now timestamptz;
    _home text;
    _new jsonb;
    _target host;
begin
    perform demand(_run_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$', 'run');
    perform from project where project = _me.project for update; -- ids and places are given by one at a time
    _now := db_now();
    insert into run (project, run_id, home) values (_me.project, _run_id, _me.host) on conflict do nothing;
    if found then
        insert into run_home values (_me.project, _me.host, _run_id);
    end if;
    select home into _home from run where project = _me.project and run_id = _run_id for update;
    if _home <> _me.host then
        raise exception using errcode = 'OF006', message = format('the home of %s is %s', _run_id, _home);
    end if;
    for _new, n in select value, ordinality from jsonb_array_elements(_agents::jsonb) with ordinality loop
        perform demand(
            _new ->> 'base' ~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$' and length(_new ->> 'req') between 1 and 1000
            and _new ->> 'on_host_lost' in ('wait', 'move') and is_object(_new ->> 'body'), 'agent'
        );
        agent := '';
        why := '';
        select one.agent, one.host, true into agent, host, again from agent one
        where one.project = _me.project and one.run_id = _run_id and one.req = _new ->> 'req';
        if found then
            return next;
            continue;
        end if;
        agent := '';
        again := false;
        host := coalesce(_new ->> 'host', most_free(_me.project, _new ->> 'engine', 0, _now), '');
        select * into _target from host one where one.project = _me.project and one.host = create_agents.host;
        why := case
            when _target.host is null then case when _new ->> 'host' is null then 'no_host' else 'host_unknown' end
            when (_target.lease_until > _now) is not true then 'host_away'
            when _target.draining then 'host_draining'
            when (_target.caps -> 'engines' ? (_new ->> 'engine')) is not true then 'engine_missing'
            else ''
        end;
        if why = '' then
            agent := free_id(_me.project, _new ->> 'base', _new -> 'taken');
            insert into agent (project, agent, host, home, run_id, req, engine, on_host_lost, log_v)
            values (_me.project, agent, host, _me.host, _run_id, _new ->> 'req', _new ->> 'engine',
                _new ->> 'on_host_lost', _target.log_v);
            insert into queue (project, agent, host, next, last) values (_me.project, agent, host, 1, 1);
            insert into post (project, agent, seq, kind, req, by_host, at, position, body)
            values (_me.project, agent, 1, 'create', _new ->> 'req', _me.host, _now, 0, _new ->> 'body');
        end if;
        return next;
    end loop;
end $$;

-- The first of base, base-2, … that no agent of the project has and that is not taken at the caller's.
create function free_id(_project text, _base text, _taken jsonb) returns text language plpgsql as $$
declare
    _id text := _base;
    _n int := 1;
begin
    while _taken ? _id or exists (select from agent where project = _project and agent = _id) loop
        _n := _n + 1;
        _id := _base || '-' || _n;
    end loop;
    return _id;
end $$;

create function post(
    _agent text, _kind text, _req text, _task_id text, _body text, _limit int, _force bool
) returns table (
    status text, host text, seq bigint, "position" int, unfinished int, life text, body text, outcome text
) language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
    _queue queue;
    _known post;
    _ended bigint;
begin
    perform demand(
        _kind in ('task', 'cancel', 'restart', 'stop') and length(_req) between 1 and 1000 and is_object(_body)
        and coalesce(_task_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$', true), 'post'
    );
    seq := 0;
    "position" := 0;
    unfinished := 0;
    life := '';
    outcome := '';
    select * into _queue from queue where project = _me.project and agent = _agent for update;
    if not found then
        status := 'no_agent';
        host := '';
        return next;
        return;
    end if;
    host := _queue.host;
    select ended, life into _ended, life from agent where project = _me.project and agent = _agent;
    unfinished := greatest(0, _queue.tasks - _ended); -- an end may outlive its post in a failover
    select * into _known from post where project = _me.project and agent = _agent and req = _req;
    if found then
        status := 'again';
        seq := _known.seq;
        "position" := _known.position;
        return next;
        return;
    end if;
    if _kind in ('task', 'cancel') then
        select * into _known from post
        where project = _me.project and agent = _agent and task_id = _task_id and kind = 'task';
        if found then
            select type into outcome from log
            where project = _me.project and agent = _agent and task_id = _task_id
                and log = 'o' and type in ('result', 'error', 'canceled');
            outcome := coalesce(outcome, '');
        end if;
        if _kind = 'task' and _known.seq is not null then
            status := 'known_task';
            seq := _known.seq;
            "position" := _known.position;
            body := _known.body;
        elsif _kind = 'cancel' and _known.seq is null then
            status := 'unknown_task';
        elsif _kind = 'cancel' and outcome <> '' then
            status := 'task_over';
        end if;
    end if;
    status := coalesce(status, case
        when case _kind
            when 'task' then _queue.closing or life in ('failed', 'stopped', 'deleted')
            when 'restart' then _queue.closing or life in ('stopped', 'deleted')
            when 'stop' then (_queue.closing and not _force) or life = 'deleted'
            else false
        end then 'agent_ended'
        when _kind = 'task' and unfinished >= _limit then 'queue_full'
        else 'accepted'
    end);
    if status = 'accepted' then
        seq := _queue.next + 1;
        "position" := case _kind when 'task' then unfinished + 1 else 0 end;
        update queue set next = _queue.next + 1, last = _queue.next + 1, tasks = tasks + (_kind = 'task')::int,
            closing = closing or _kind = 'stop'
        where project = _me.project and agent = _agent;
        insert into post (project, agent, seq, kind, task_id, req, by_host, at, position, body)
        values (_me.project, _agent, seq, _kind, _task_id, _req, _me.host, db_now(), "position", _body);
    end if;
    return next;
end $$;

-- Several posts in one transaction, in their order; each is answered as by `post`.
create function post_all(
    _agents text[], _kinds text[], _reqs text[], _task_ids text[], _bodies text[], _limits int[], _forces bool[]
) returns table (
    status text, host text, seq bigint, "position" int, unfinished int, life text, body text, outcome text
) language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
begin
    perform from queue where project = _me.project and agent = any (_agents) order by agent for update;
    for _n in 1 .. cardinality(_agents) loop
        return query select * from post(
            _agents[_n], _kinds[_n], _reqs[_n], _task_ids[_n], _bodies[_n], _limits[_n], _forces[_n]
        );
    end loop;
end $$;

create function take(_agents text[], _after bigint[], _each int) returns table (
    agent text, seq bigint, kind text, task_id text, req text, by_host text, at text, body text
) language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
begin
    return query
        select own.agent, p.seq, p.kind, p.task_id, p.req, p.by_host,
            to_char(date_trunc('milliseconds', p.at) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), p.body
        from unnest(_agents, _after) as asked (agent, after)
        join agent own on own.project = _me.project and own.agent = asked.agent and own.host = _me.host,
        lateral (
            select * from post where post.project = own.project and post.agent = own.agent and post.seq > asked.after
            order by post.seq limit _each
        ) p
        order by own.agent, p.seq;
end $$;

-- The title in a task's post, for people; '' without one, and if a host has posted what is no JSON. A text cannot hold
-- the character \u0000, and a payload that has it must not hide the title.
create function title_in(_body text) returns text language plpgsql immutable as $$
begin
    return coalesce(left(replace(_body, '\u0000', '\ufffd')::json ->> 'title', 80), '');
exception when data_exception then
    return '';
end $$;

-- What waits for the owner, for other hosts to show: without payloads.
create function untaken(_agents text[], _after bigint[], _each int) returns table (
    agent text, seq bigint, kind text, task_id text, at text, title text
) language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
begin
    return query
        select asked.agent, p.seq, p.kind, p.task_id,
            to_char(date_trunc('milliseconds', p.at) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
            case p.kind when 'task' then title_in(p.body) else '' end
        from unnest(_agents, _after) as asked (agent, after),
        lateral (
            select * from post where post.project = _me.project and post.agent = asked.agent and post.seq > asked.after
            order by post.seq limit _each
        ) p
        order by asked.agent, p.seq;
end $$;

create function ownership(_agents text[]) returns table (agent text, host text, fence bigint)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
begin
    return query select agent, host, fence from agent
        where project = _me.project and agent = any (_agents) order by agent;
end $$;

create function forget(_agents text[]) returns table (agent text)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
    _gone text[];
begin
    select array_agg(one.agent) into _gone from (
        select agent from agent where project = _me.project and agent = any (_agents) and life = 'deleted'
            and home = _me.host
        order by agent for update
    ) one;
    delete from queue where project = _me.project and agent = any (_gone);
    delete from post where project = _me.project and agent = any (_gone);
    delete from log where project = _me.project and agent = any (_gone);
    delete from late where project = _me.project and agent = any (_gone);
    delete from agent where project = _me.project and agent = any (_gone);
    return query select unnest(_gone) order by 1;
end $$;
