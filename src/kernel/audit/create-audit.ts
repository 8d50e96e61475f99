/** The audit log in PostgreSQL. */

import type { Caller } from '../caller.ts';
import type { Database, Statement, TransactionHook } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import { offAccount } from '../request-account/request-account.ts';
import type { Logger } from '../telemetry/logger.ts';
import { redact, redactText, withoutAddressValues } from '../telemetry/redact.ts';
import { cutText, storable } from '../text.ts';
import type {
  AccompanyingRow,
  Audit,
  AuditEntry,
  AuditFilter,
  AuditOutcome,
  AuditRecord,
} from './audit.ts';
import { createLaterRows } from './deferred-rows.ts';

/* How a caller is written down. */

interface Actor {
  readonly type: Caller['kind'];
  readonly id: string | null;
  readonly name: string | null;
  readonly tokenPrefix: string | null;
  readonly impersonatedBy: string | null;
}

const nobody = { id: null, name: null, tokenPrefix: null, impersonatedBy: null } as const;

function actorOf(caller: Caller): Actor {
  switch (caller.kind) {
    case 'anonymous':
      return { ...nobody, type: 'anonymous' };
    case 'user':
      return {
        ...nobody,
        type: 'user',
        id: caller.userId,
        impersonatedBy: caller.impersonatedBy ?? null,
      };
    case 'admin':
      return {
        ...nobody,
        type: 'admin',
        id: caller.adminId,
        name: caller.username,
        tokenPrefix: caller.tokenPrefix ?? null,
      };
    case 'system':
      return { ...nobody, type: 'system', name: caller.reason };
  }
}

/**
 * Room of one row's changes. Above it every part keeps a fair share: values are cut, and the places of what was
 * changed stay, so that padding hides nothing.
 */
const changesLimits = { characters: 32_768, depth: 64 };
/** UTF-16 units. */
const [MAX_USER_AGENT, MAX_TARGET, MAX_NAME] = [512, 1_024, 256];
/** Rows per statement when many are read or purged. */
const BATCH = 1_000;

export function createAudit(database: Database, log: Logger): Audit {
  const later = createLaterRows({ database, log, insert: (entries) => insert(...entries) });
  return {
    recordLater: later.add,
    flush: later.flush,
    async record(entry) {
      // A row by itself is no change that another row could go with. It is written also when the request's time is over.
      await offAccount(() =>
        database.withTransactionHook(nothing, () => database.query(insert(entry))),
      );
    },
    recordWith(entry, work) {
      const row = createAccompanyingRow(entry);
      return database.withTransactionHook(row, () => work(row));
    },
    async list(filter, { skip, limit }) {
      await later.flush();
      const { rows } = await database.query<AuditRow>(select(filter, { skip, limit }));
      return rows.map(recordOf);
    },
    async count(filter) {
      await later.flush();
      const { rows } = await database.query<{ count: number }>(countStatement(filter));
      return rows[0]?.count ?? 0;
    },
    async *read(filter) {
      await later.flush();
      let after = '0';
      for (;;) {
        const { rows } = await database.query<AuditRow>(following(filter, after));
        for (const row of rows) yield recordOf(row);
        const last = rows.at(-1);
        if (rows.length < BATCH || !last) return;
        after = last.id;
      }
    },
    async completeUntil() {
      await later.flush();
      const { rows } = await database.query<{ until: Date | null }>(oldestChange);
      return rows[0]?.until ?? undefined;
    },
    async purge(days) {
      let all = 0;
      for (let purged = BATCH; purged === BATCH; all += purged)
        purged = await purgeBatch(database, days);
      return all;
    },
  };
}

/** For what is to stand alone. */
const nothing: TransactionHook = {
  isWaiting: () => false,
  take: () => undefined,
  giveBack: () => undefined,
};

function createAccompanyingRow(
  entry: () => AuditEntry | undefined,
): TransactionHook & AccompanyingRow {
  let state: 'waiting' | 'taken' | 'ended' = 'waiting';
  return {
    isWaiting: () => state === 'waiting',
    isWritten: () => state === 'taken',
    take() {
      const made = entry();
      if (!made) return undefined;
      state = 'taken';
      return insertWithChange(made);
    },
    giveBack() {
      if (state === 'taken') state = 'waiting';
    },
    end() {
      if (state === 'waiting') state = 'ended';
    },
  };
}

const names = [
  ...[
    'actor_type',
    'actor_id',
    'actor_name',
    'token_prefix',
    'impersonated_by',
    'address',
    'user_agent',
    'request_id',
  ],
  ...['action', 'target', 'outcome', 'status', 'changes', 'modules'],
];
/** What the values are, where they are not text. */
const casts: Readonly<Record<string, string>> = {
  status: '::text::smallint',
  changes: '::jsonb',
  modules: '::text[]',
};

/** One row for each entry, in a transaction of their own or whichever is open. */
function insert(...entries: readonly AuditEntry[]): Statement {
  const rowText = (row: number): string =>
    `select ${names.map((name, i) => `$${row * names.length + i + 1}${casts[name] ?? '::text'}`)}`;
  const rows = entries.map((_, row) => rowText(row)).join(' union all ');
  return {
    text: `insert into penstock.audit_log (${names}) ${rows}`,
    values: entries.flatMap(valuesOf),
  };
}

function valuesOf(entry: AuditEntry): readonly (string | readonly string[] | null)[] {
  const actor = actorOf(entry.caller);
  return [
    ...[
      actor.type,
      actor.id,
      cleaned(actor.name, MAX_NAME),
      actor.tokenPrefix,
      actor.impersonatedBy,
      cleaned(entry.address, MAX_NAME),
    ],
    ...[
      entry.userAgent === undefined ? null : redactText(entry.userAgent, MAX_USER_AGENT),
      cleaned(entry.requestId, MAX_NAME),
      entry.action,
    ],
    ...[
      cleaned(entry.target, MAX_TARGET),
      entry.outcome,
      entry.status === undefined ? null : String(entry.status),
    ],
    changesOf(entry.changes),
    entry.modules === undefined ? [moduleOf(entry.action)] : entry.modules,
  ];
}

const moduleOf = (action: string): string => action.split('.', 1)[0] ?? '';

/** A row must be written whatever it says. */
const cleaned = (text: string | null | undefined, max: number): string | null =>
  text == null ? null : storable(cutText(text, max));

/** Only where the transaction has changed something before. */
function insertWithChange(entry: AuditEntry): Statement {
  const { text, values } = insert(entry);
  return {
    text: `${text} where pg_current_xact_id_if_assigned() is not null`,
    ...(values && { values }),
  };
}

const changesOf = (changes: unknown): string | null =>
  changes === undefined ? null : JSON.stringify(redact({ changes }, changesLimits).changes);

interface AuditRow {
  readonly id: string;
  readonly at: Date;
  readonly actor_type: AuditRecord['actor']['type'];
  readonly actor_id: string | null;
  readonly actor_name: string | null;
  readonly token_prefix: string | null;
  readonly impersonated_by: string | null;
  readonly address: string | null;
  readonly user_agent: string | null;
  readonly request_id: string | null;
  readonly action: string;
  readonly target: string | null;
  readonly outcome: AuditOutcome;
  readonly status: number | null;
  readonly changes: unknown;
}

/** Rows are never changed: those from before addresses lost their values when they were written lose them here. */
function maskedAddresses(value: unknown): unknown {
  if (typeof value === 'string') return withoutAddressValues(value);
  if (Array.isArray(value)) return value.map(maskedAddresses);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, maskedAddresses(one)]),
  );
}

const recordOf = (row: AuditRow): AuditRecord => ({
  id: row.id,
  at: row.at,
  actor: {
    type: row.actor_type,
    id: row.actor_id,
    name: row.actor_name,
    tokenPrefix: row.token_prefix,
    impersonatedBy: row.impersonated_by,
  },
  ip: row.address,
  userAgent: row.user_agent,
  requestId: row.request_id,
  action: row.action,
  target: row.target === null ? null : withoutAddressValues(row.target),
  outcome: row.outcome,
  status: row.status,
  changes: maskedAddresses(row.changes),
});

/** `id` alone would mean this text in an `order by`: the number is `audit_log.id`. */
const columns = `id::text, at, actor_type, actor_id, actor_name, token_prefix, impersonated_by, address, user_agent, request_id, action,
  target, outcome, status, changes`;

/** The conditions of a filter; values are parameters, beginning with `$1`. */
function conditions(filter: AuditFilter): { readonly text: string; readonly values: unknown[] } {
  const values: unknown[] = [];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const parts = [
    ...(filter.actor === undefined
      ? []
      : [`(actor_id = ${next(filter.actor)} or actor_name = $${values.length})`]),
    ...(filter.action === undefined ? [] : [`action like ${next(beginning(filter.action))}`]),
    ...(filter.target === undefined ? [] : [`target like ${next(beginning(filter.target))}`]),
    ...(filter.outcome === undefined ? [] : [`outcome = ${next(filter.outcome)}`]),
    ...(filter.from === undefined ? [] : [`at >= ${next(filter.from)}`]),
    ...(filter.to === undefined ? [] : [`at < ${next(filter.to)}`]),
    // Rows from before they said what they are about are for those who may read everything.
    ...(filter.modules === undefined ? [] : [`modules <@ ${next(filter.modules)}::text[]`]),
  ];
  return { text: parts.length === 0 ? 'true' : parts.join(' and '), values };
}

const beginning = (text: string): string => `${text.replace(/[\\%_]/g, '\\$&')}%`;

function select(filter: AuditFilter, { skip, limit }: { skip: number; limit: number }): Statement {
  const { text, values } = conditions(filter);
  const page = `limit $${values.push(limit)} offset $${values.push(skip)}`;
  return {
    text: `select ${columns} from penstock.audit_log where ${text} order by audit_log.id desc ${page}`,
    values,
  };
}

function countStatement(filter: AuditFilter): Statement {
  const { text, values } = conditions(filter);
  return {
    text: `select count(*)::integer as count from penstock.audit_log where ${text}`,
    values,
  };
}

function following(filter: AuditFilter, after: string): Statement {
  const { text, values } = conditions(filter);
  const position = `id > $${values.push(after)}::bigint`;
  return {
    text: `select ${columns} from penstock.audit_log where ${text} and ${position} order by audit_log.id limit ${BATCH}`,
    values,
  };
}

/**
 * The time of a row is when its transaction began, and it is seen when that is over: this is when the oldest that runs did.
 * This statement is one of them. One that begins just now may not have said so yet: a second is more than it needs.
 */
const oldestChange = sql`
  select min(xact_start) - interval '1 second' as until from pg_stat_activity where datname = current_database() and backend_type = 'client backend'`;

/** One transaction: the permission to delete ends with it. Nodes that purge at once take different rows. */
const purgeBatch = (database: Database, days: number): Promise<number> =>
  database.transaction(async (transaction) => {
    await transaction.query(sql`select set_config('penstock.purging_audit', 'on', true)`);
    const { count } = await transaction.query(sql`
      delete from penstock.audit_log where id in (
        select id from penstock.audit_log where at < now() - make_interval(days => ${days})
          order by at, id limit ${BATCH} for update skip locked)`);
    return count;
  });
