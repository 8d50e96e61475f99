import type { Migration } from '../database/migrate.ts';

/** The trigger lets a delete pass only inside `purge`, which says so for the length of its transaction. */
const auditLog = `
  create table penstock.audit_log (
    id bigint generated always as identity primary key,
    at timestamptz(3) not null default now(),
    actor_type text not null,
    actor_id text,
    actor_name text,
    token_prefix text,
    impersonated_by text,
    address text,
    user_agent text,
    request_id text,
    action text not null,
    target text,
    outcome text not null check (outcome in ('success', 'refused', 'failed')),
    status smallint,
    changes jsonb
  );
  create index audit_log_at on penstock.audit_log (at, id);
  create index audit_log_actor on penstock.audit_log (actor_id, id);
  create index audit_log_action on penstock.audit_log (action text_pattern_ops, id);
  create index audit_log_target on penstock.audit_log (target text_pattern_ops, id);

  create function penstock.audit_log_is_append_only() returns trigger language plpgsql as $body$
  begin
    if tg_op = 'DELETE' and current_setting('penstock.purging_audit', true) = 'on' then
      return old;
    end if;
    raise exception 'the audit log is append-only' using errcode = '42501';
  end
  $body$;
  create trigger audit_log_is_append_only before update or delete on penstock.audit_log
    for each row execute function penstock.audit_log_is_append_only();
  create trigger audit_log_is_never_truncated before truncate on penstock.audit_log
    for each statement execute function penstock.audit_log_is_append_only();
`;

/** Whoever says that they purge still takes away nothing of the last day: that is the shortest time that rows are kept. */
const keepTheLastDay = `
  create or replace function penstock.audit_log_is_append_only() returns trigger language plpgsql as $body$
  begin
    if tg_op = 'DELETE' and current_setting('penstock.purging_audit', true) = 'on' and old.at < now() - interval '1 day' then
      return old;
    end if;
    raise exception 'the audit log is append-only' using errcode = '42501';
  end
  $body$;
`;

/** Null: about more than modules can say, or from before rows said it. */
const aboutModules = 'alter table penstock.audit_log add column modules text[]';

const statement = (id: string, text: string): Migration => ({
  id,
  run: async (database) => void (await database.query({ text })),
});

export const migrations: readonly Migration[] = [
  statement('0001-audit-log', auditLog),
  statement('0002-keep-the-last-day', keepTheLastDay),
  statement('0003-about-modules', aboutModules),
];
