-- The mirrors of the owners' logs: dense, byte for byte, each record under the fence of its agent.

create function ship(
    _agents text[], _fences bigint[], _lives text[],
    _parts int[], _logs text[], _seqs bigint[], _types text[], _task_ids text[], _lines text[]
) returns table (n int, agent text, status text, in_seq bigint, out_seq bigint, fence bigint, host text)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
    _from int := 1;
    _to int;
begin
    return query select * from ship_parts(_me.project, _me.host, _agents, _fences, _lives,
        _parts, _logs, _seqs, _types, _task_ids, _lines);
exception when unique_violation then -- a row of agent disagrees with the log: that agent alone is set aside
    perform from agent where project = _me.project and agent = any (_agents) order by agent for update;
    for _n in 1 .. cardinality(_agents) loop
        _to := _from;
        while _parts[_to] = _n loop
            _to := _to + 1;
        end loop;
        begin
            return query select _n, one.agent, one.status, one.in_seq, one.out_seq, one.fence, one.host
                from ship_parts(_me.project, _me.host, _agents[_n:_n], _fences[_n:_n], _lives[_n:_n],
                    array_fill(1, array[_to - _from]), _logs[_from:_to - 1], _seqs[_from:_to - 1],
                    _types[_from:_to - 1], _task_ids[_from:_to - 1], _lines[_from:_to - 1]) one;
        exception when unique_violation then
            return query select _n, one.agent, 'forked', one.in_seq, one.out_seq, one.fence, one.host from agent one
                where one.project = _me.project and one.agent = _agents[_n];
        end;
        _from := _to;
    end loop;
end $$;

create function ship_parts(
    _project text, _host text, _agents text[], _fences bigint[], _lives text[],
    _parts int[], _logs text[], _seqs bigint[], _types text[], _task_ids text[], _lines text[]
) returns table (n int, agent text, status text, in_seq bigint, out_seq bigint, fence bigint, host text)
language plpgsql as $$
#variable_conflict use_column
declare
    _log_v int;
    _one agent;
    _ends text[];
    _from int := 1; -- lines of a part stand together
    _to int;
begin
    select log_v into _log_v from host where project = _project and host = _host;
    perform from agent where project = _project and agent = any (_agents) order by agent for update;
    for _n in 1 .. coalesce(cardinality(_agents), 0) loop
        _to := _from;
        while _parts[_to] = _n loop
            _to := _to + 1;
        end loop;
        n := _n;
        agent := _agents[_n];
        select * into _one from agent where project = _project and agent = _agents[_n];
        if not found then
            status := 'fenced';
            in_seq := 0;
            out_seq := 0;
            fence := 0;
            host := '';
        else
            status := case
                when _one.host <> _host or _one.fence <> _fences[_n] then 'fenced'
                else misfit(_one, _logs[_from:_to - 1], _seqs[_from:_to - 1], _types[_from:_to - 1],
                    _task_ids[_from:_to - 1], _lines[_from:_to - 1])
            end;
            in_seq := _one.in_seq;
            out_seq := _one.out_seq;
            fence := _one.fence;
            host := _one.host;
        end if;
        if status = '' then
            status := 'stored';
            insert into log (project, agent, log, seq, fence, type, task_id, line)
            select _project, _one.agent, left(l.log, 1)::"char", l.seq, _one.fence, l.type, l.task_id, l.line
            from unnest(_logs[_from:_to - 1], _seqs[_from:_to - 1], _types[_from:_to - 1],
                _task_ids[_from:_to - 1], _lines[_from:_to - 1]) as l (log, seq, type, task_id, line);
            select
                _one.in_seq + count(*) filter (where l.log = 'inbox'),
                _one.out_seq + count(*) filter (where l.log = 'outbox'),
                array_agg(l.task_id) filter (
                    where l.log = 'outbox' and l.type in ('result', 'error', 'canceled') and l.task_id is not null
                )
            into in_seq, out_seq, _ends
            from unnest(_logs[_from:_to - 1], _types[_from:_to - 1], _task_ids[_from:_to - 1]) as l (log, type, task_id);
            update agent set in_seq = ship_parts.in_seq, out_seq = ship_parts.out_seq, life = _lives[_n], log_v = _log_v,
                ended = ended + coalesce(cardinality(_ends), 0)
            where project = _project and agent = _one.agent;
        end if;
        _from := _to;
        return next;
    end loop;
end $$;

-- Why lines cannot be stored behind the mirror of a locked agent: `gap`, `forked`; '' if they can.
create function misfit(
    _one agent, _logs text[], _seqs bigint[], _types text[], _task_ids text[], _lines text[]
) returns text language plpgsql as $$
declare
    _gap bool;
    _ends text[];
begin
    select bool_or(l.seq <> l.due) into _gap from (
        select seq, case log when 'inbox' then _one.in_seq else _one.out_seq end
            + row_number() over (partition by log order by ordinality) as due
        from unnest(_logs, _seqs) with ordinality as line (log, seq, ordinality)
    ) l;
    if _gap then
        perform from unnest(_logs, _seqs, _lines) as l (log, seq, line)
        join log old on old.project = _one.project and old.agent = _one.agent
            and old.log = left(l.log, 1)::"char" and old.seq = l.seq
        where old.line <> l.line;
        return case when found then 'forked' else 'gap' end;
    end if;
    select array_agg(l.task_id) into _ends from unnest(_logs, _types, _task_ids) as l (log, type, task_id)
    where l.log = 'outbox' and l.type in ('result', 'error', 'canceled') and l.task_id is not null;
    if _ends is null then
        return '';
    end if;
    perform from log where project = _one.project and agent = _one.agent and task_id = any (_ends)
        and log = 'o' and type in ('result', 'error', 'canceled');
    if found or (select count(distinct id) from unnest(_ends) as id) < cardinality(_ends) then
        return 'forked';
    end if;
    return '';
end $$;

create function read(_agent text, _log text, _after bigint, _count int, _max_bytes bigint)
returns table (seq bigint, fence bigint, line text)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
begin
    return query
        select l.seq, l.fence, l.line from (
            select seq, fence, line, sum(octet_length(line)) over (order by seq) as size,
                row_number() over (order by seq) as n
            from (
                select seq, fence, line from log
                where project = _me.project and agent = _agent and log = left(_log, 1)::"char" and seq > _after
                order by seq limit _count
            ) next
        ) l
        where l.size <= _max_bytes or l.n = 1 order by l.seq;
end $$;

create function read_new(_agents text[], _in_after bigint[], _out_after bigint[], _each int)
returns table (agent text, log text, seq bigint, fence bigint, line text)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
begin
    return query -- one statement: what it sees is of one moment
        select known.agent, log_name(part.log), l.seq, l.fence, l.line
        from unnest(_agents, _in_after, _out_after) as asked (agent, in_after, out_after)
        join agent known on known.project = _me.project and known.agent = asked.agent,
        lateral (values ('i'::"char", asked.in_after), ('o'::"char", asked.out_after)) as part (log, after),
        lateral (
            select one.seq, one.fence, one.line from log one
            where one.project = known.project and one.agent = known.agent and one.log = part.log
                and one.seq > part.after
            order by one.seq limit _each
        ) l
        order by known.agent, part.log, l.seq;
end $$;

-- What a former owner could not ship. Any host may call it, so a reader takes nothing here for granted.
create function late(_agent text, _fence bigint, _logs text[], _seqs bigint[], _lines text[]) returns void
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
declare
    _me record := caller();
    _last bigint;
begin
    select one.late into _last from agent one where one.project = _me.project and one.agent = _agent for update;
    if not found then
        return;
    end if;
    insert into late (project, agent, n, fence, by_host, log, seq, line)
    select _me.project, _agent, _last + row_number() over (order by l.ordinality), _fence, _me.host, l.log, l.seq, l.line
    from unnest(_logs, _seqs, _lines) with ordinality as l (log, seq, line, ordinality)
    where not exists (
        select from late old where old.project = _me.project and old.agent = _agent and old.by_host = _me.host
            and old.fence = _fence and old.log = l.log and old.seq = l.seq
    );
    if found then
        update agent set late = (select max(n) from late where project = _me.project and agent = _agent)
        where project = _me.project and agent = _agent;
    end if;
end $$;

create function late_lines(_agent text, _after bigint, _count int, _max_bytes bigint)
returns table (n bigint, fence bigint, by_host text, log text, seq bigint, line text)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
begin
    return query
        select l.n, l.fence, l.by_host, l.log, l.seq, l.line from (
            select n, fence, by_host, log, seq, line, sum(octet_length(line)) over (order by n) as size from (
                select n, fence, by_host, log, seq,
                    case when octet_length(line) <= _max_bytes then line else '' end as line
                from late where project = _me.project and agent = _agent and n > _after
                order by n limit _count
            ) next
        ) l
        where l.size <= _max_bytes order by l.n;
end $$;

revoke all on all functions in schema orchestrator_fleet from public;
