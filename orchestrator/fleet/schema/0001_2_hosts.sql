-- Hosts: they join, renew their lease, and move the agents of a lost one.

create function join_host(
    _schema int, _instance text, _boot text, _version text, _log_v int, _caps text, _repository text
) returns table (project text, host text, incarnation text, timeline int)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _meta meta;
    _me record;
    _host host;
    _known text;
    _now timestamptz;
begin
    select * into _meta from meta;
    if _schema < _meta.min_program then
        raise exception using errcode = 'OF004',
            message = format('the schema is %s, this program has %s', _meta.schema, _schema);
    elsif _schema > _meta.schema then
        raise exception using errcode = 'OF005',
            message = format('the schema is %s, this program has %s', _meta.schema, _schema);
    end if;
    _me := caller();
    perform demand(are_caps(_caps), 'caps');
    perform demand(concat(_instance, _boot, _version, _repository) ~ '^[ -~]*$', 'name of itself');
    perform demand(octet_length(concat(_instance, _boot, _version, _repository)) <= 1000, 'name of itself');
    select repository into _known from project where project = _me.project for update;
    select * into _host from host where project = _me.project and host = _me.host for update;
    _now := db_now();
    if _repository <> '' and _known not in ('', _repository) then
        raise exception using errcode = 'OF003', message = format('%s is another project', _me.project);
    end if;
    if _host.instance not in ('', _instance) or (_host.boot <> _boot and _host.lease_until > _now) then
        raise exception using errcode = 'OF002', message = format('%s is another machine or copy', _me.host);
    end if;
    update project set repository = _repository where project = _me.project and repository = '' and _repository <> '';
    update host set instance = _instance, boot = _boot, version = _version, log_v = _log_v, caps = _caps::jsonb,
        joined = _now, lost = false
    where project = _me.project and host = _me.host;
    return query select _me.project, _me.host, incarnation::text, timeline from meta;
end $$;

create function beat(_instance text, _boot text, _caps text, _fresh bool, _view text, _known_views text)
returns table (
    incarnation text, timeline int, own json, homes json, hosts json, runs json, views json, asks json
) language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
    _host host;
    _now timestamptz;
    _views jsonb := _known_views::jsonb;
begin
    perform demand(are_caps(_caps), 'caps');
    perform demand(_view is null or (octet_length(_view) < 10000000 and is_object(_view)), 'view');
    select * into _host from host where project = _me.project and host = _me.host for update;
    _now := db_now();
    if _host.instance <> _instance or _host.boot <> _boot then
        raise exception using errcode = 'OF002', message = format('%s is another machine or copy', _me.host);
    end if;
    update host set
        -- Broken also by 5 s without a renewal: the last one was 15 s before the end of its lease.
        unbroken_since = case
            when _fresh or unbroken_since is null or lease_until < _now + interval '10 s' then _now
            else unbroken_since
        end,
        lease_until = _now + interval '15 s',
        caps = _caps::jsonb,
        lost = false, -- it lives, so whoever gave it up was wrong; what has moved meanwhile has another fence
        view_n = view_n + (_view is not null)::int
    where project = _me.project and host = _me.host;
    if _view is not null then
        insert into view as old values (_me.project, _me.host, _host.view_n + 1, _view)
        on conflict (project, host) do update set n = excluded.n, view = excluded.view;
    end if;
    return query select meta.incarnation::text, meta.timeline,
        (
            select coalesce(json_agg(json_build_array(
                a.agent, a.run_id, a.home, a.fence, q.last, a.in_seq, a.out_seq, a.on_host_lost, a.ends, a.late
            ) order by a.agent), '[]')
            from agent a join queue q using (project, agent)
            where a.project = _me.project and a.host = _me.host
        ),
        (
            select coalesce(json_agg(json_build_array(
                a.agent, a.run_id, a.host, a.fence, q.last, a.in_seq, a.out_seq
            ) order by a.agent), '[]')
            from agent a join queue q using (project, agent)
            where a.project = _me.project and a.home = _me.host and a.host <> _me.host
        ),
        (
            select coalesce(json_agg(json_build_array(
                h.host, extract(epoch from h.lease_until - _now), h.version, h.log_v, h.draining, h.lost,
                coalesce((h.caps ->> 'places')::int, 0),
                (
                    select count(*) from agent a where a.project = h.project and a.host = h.host
                        and a.life not in ('failed', 'stopped', 'deleted')
                )
            ) order by h.host), '[]')
            from host h where h.project = _me.project
        ),
        (
            select coalesce(json_agg(json_build_array(r.run_id, r.home, r.gen) order by r.run_id), '[]')
            from run_home join run r using (project, run_id)
            where run_home.project = _me.project and run_home.host = _me.host
        ),
        (
            -- Whole only for the home of an agent there: else each host would read all of the fleet at each beat.
            select coalesce(json_agg(case
                when led.here then json_build_array(v.host, v.n, v.view)
                else json_build_array(v.host, 0, jsonb_build_object('engines', coalesce(h.caps -> 'engines', '[]'))::text)
            end order by v.host), '[]')
            from view v join host h using (project, host),
                lateral (
                    select exists (
                        select from agent a where a.project = v.project and a.home = _me.host and a.host = v.host
                    ) as here
                ) led
            where v.project = _me.project and v.host <> _me.host
                and (not led.here or v.n > coalesce((_views ->> v.host)::bigint, 0))
        ),
        (
            select coalesce(json_agg(json_build_array(
                one.id, one.by_host, one.verb, one.body, extract(epoch from one.until - _now)
            ) order by one.id), '[]')
            from ask one where one.project = _me.project and one.to_host = _me.host
                and one.answer is null and one.until > _now
        )
    from meta;
end $$;

create function move(_dead text) returns table (agent text, host text, fence bigint, ends bool)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
    _host host;
    _mover host;
    _one agent;
    _now timestamptz;
    _target text;
    _ends bool;
begin
    perform from project where project = _me.project for update; -- places are counted, by one at a time
    select * into _host from host where project = _me.project and host = _dead for update;
    if not found then
        raise exception using errcode = 'OF001', message = format('no host %s', _dead);
    end if;
    select * into _mover from host where project = _me.project and host = _me.host;
    _now := db_now();
    if (_host.lease_until + interval '5 s' < _now) is not true then
        raise exception using errcode = 'OF007', message = format('the lease of %s has not expired', _dead);
    end if;
    if (_mover.unbroken_since <= _now - interval '20 s' and _mover.lease_until > _now) is not true then
        raise exception using errcode = 'OF008', message = format('%s has not renewed for long enough', _me.host);
    end if;
    for _one in
        select * from agent where project = _me.project and host = _dead and life <> 'deleted'
        order by agent for update
    loop
        _target := null;
        _ends := false;
        if _one.on_host_lost = 'move' and not _one.ends then
            _target := most_free(_me.project, _one.engine, _one.log_v, _now);
        end if;
        if _target is null and _host.lost and _one.home <> _dead then
            _target := _one.home;
            _ends := true;
        end if;
        if _target is not null then
            update agent set host = _target, fence = _one.fence + 1, ends = _ends
            where project = _me.project and agent = _one.agent;
            update queue set host = _target, closing = closing or _ends
            where project = _me.project and agent = _one.agent;
            agent := _one.agent;
            host := _target;
            fence := _one.fence + 1;
            ends := _ends;
            return next;
        end if;
    end loop;
end $$;

create function take_run(_run_id text, _gen int) returns table (run_id text, home text, gen int)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
    _run run;
begin
    select * into _run from run where project = _me.project and run_id = _run_id for update;
    if not found then
        raise exception using errcode = 'OF009', message = format('no run %s', _run_id);
    end if;
    if _run.gen = _gen and _run.home <> _me.host then
        update run set home = _me.host, gen = _gen + 1 where project = _me.project and run_id = _run_id;
        insert into run_home values (_me.project, _me.host, _run_id) on conflict do nothing;
        perform from agent where project = _me.project and run_id = _run_id order by agent for update;
        update agent set home = _me.host where project = _me.project and run_id = _run_id;
    end if;
    return query select run_id, home, gen from run where project = _me.project and run_id = _run_id;
end $$;

create function ask(_to_host text, _verb text, _body text, _wait_s float8) returns bigint
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
declare
    _me record := caller();
    _now timestamptz := db_now();
    _id bigint;
begin
    if not exists (select from host where project = _me.project and host = _to_host) then
        raise exception using errcode = 'OF001', message = format('no host %s', _to_host);
    end if;
    perform demand(is_object(_body) and octet_length(_body) < 10000000 and length(_verb) < 100, 'question');
    perform demand(_wait_s between 0 and 3600, 'time for the answer');
    perform demand((
        select count(*) < 1000 from ask
        where project = _me.project and to_host = _to_host and by_host = _me.host and until > _now
    ), 'number of open questions');
    delete from ask where project = _me.project and to_host = _to_host and until < _now - interval '10 min';
    insert into ask (project, to_host, by_host, verb, body, until)
    values (_me.project, _to_host, _me.host, _verb, _body, _now + make_interval(secs => _wait_s))
    returning id into _id;
    return _id;
end $$;

create function asks() returns table (id bigint, by_host text, verb text, body text, left_s float8)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
    _now timestamptz := db_now();
begin
    return query select id, by_host, verb, body, extract(epoch from until - _now)::float8 from ask
        where project = _me.project and to_host = _me.host and answer is null and until > _now order by id;
end $$;

create function answer(_id bigint, _answer text) returns void
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
declare
    _me record := caller();
begin
    perform demand(is_object(_answer), 'answer');
    update ask set answer = _answer
    where id = _id and project = _me.project and to_host = _me.host and answer is null and until > db_now();
end $$;

create function answered(_id bigint) returns table (done bool, answer text)
language plpgsql security definer set search_path = orchestrator_fleet, pg_temp as $$
#variable_conflict use_column
declare
    _me record := caller();
begin
    delete from ask where id = _id and project = _me.project and by_host = _me.host and answer is not null
    returning true, answer into done, answer;
    done := coalesce(done, false);
    return next;
end $$;
