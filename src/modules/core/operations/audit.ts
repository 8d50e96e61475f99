/** Reading the audit log. Nothing here, and nothing elsewhere, changes it. */

import type { Static } from 'typebox';
import Type from 'typebox';
import type { Audit, AuditFilter, AuditRecord } from '../../../kernel/audit/audit.ts';
import { modulesOfCaller } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { invalid } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { optionalPagingQuery } from '../../../kernel/operations/paging.ts';
import { Timestamp } from './shapes.ts';

/* The audit log as files: one line per entry. */

/** One JSON document per line. */
async function* auditLines(
  entries: AsyncIterable<AuditRecord>,
  show: (entry: AuditRecord) => object,
): AsyncGenerator<string> {
  for await (const entry of entries) yield `${JSON.stringify(show(entry))}\n`;
}

const header = [
  'id',
  'at',
  'actorType',
  'actorId',
  'actorName',
  'tokenPrefix',
  'impersonatedBy',
  'ip',
  'userAgent',
  'requestId',
  'action',
  'target',
  'outcome',
  'status',
  'changes',
];

/** RFC 4180. Texts that a spreadsheet would take for a formula get an apostrophe before them. */
async function* auditCsv(entries: AsyncIterable<AuditRecord>): AsyncGenerator<string> {
  // Loaded with the first export.
  const { stringify } = await import('csv-stringify/sync');
  const line = (cells: readonly (string | null)[]): string =>
    stringify([cells.map((cell) => cell ?? '')], {
      record_delimiter: 'windows',
      escape_formulas: true,
    });
  yield line(header);
  for await (const entry of entries) yield line(cellsOf(entry));
}

function cellsOf({ id, at, actor, changes, ...entry }: AuditRecord): (string | null)[] {
  return [
    id,
    at.toISOString(),
    actor.type,
    actor.id,
    actor.name,
    actor.tokenPrefix,
    actor.impersonatedBy,
    entry.ip,
    entry.userAgent,
    entry.requestId,
    entry.action,
    entry.target,
    entry.outcome,
    entry.status === null ? null : String(entry.status),
    changes === null ? null : JSON.stringify(changes),
  ];
}

export const auditOperations = (audit: Audit): readonly Operation[] => [
  list(audit),
  exportLog(audit),
];

const facts = {
  surface: 'admin',
  method: 'GET',
  access: 'superAdmin',
  limit: standardLimit,
} as const;

const text = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 256, description }));
const time = (description: string) =>
  Type.Optional(Type.String({ format: 'date-time', description }));

const filterFields = {
  actor: text('Id or name of who did it'),
  action: text('Beginning of the action: `core.` or `authentication.login`'),
  target: text('Beginning of what it was done to'),
  outcome: Type.Optional(
    Type.Union([Type.Literal('success'), Type.Literal('refused'), Type.Literal('failed')], {
      description: 'How it ended',
    }),
  ),
  from: time('Not before this moment'),
  to: time('Before this moment'),
};

const nullable = Type.Union([Type.String(), Type.Null()]);

const AuditEntry = Type.Object({
  _id: Type.String({ description: 'A rising number' }),
  at: Timestamp,
  actor: Type.Object({
    type: Type.String({ description: '`admin`, `user`, `system` or `anonymous`' }),
    id: nullable,
    name: nullable,
    tokenPrefix: Type.Union([Type.String(), Type.Null()], {
      description: 'Which API token was used',
    }),
    impersonatedBy: Type.Union([Type.String(), Type.Null()], {
      description: 'Id of the admin who acted as this user',
    }),
  }),
  ip: nullable,
  userAgent: nullable,
  requestId: nullable,
  action: Type.String(),
  target: nullable,
  outcome: Type.String({ description: '`success`, `refused` (4xx) or `failed` (5xx)' }),
  status: Type.Union([Type.Integer(), Type.Null()]),
  changes: Type.Unknown({ description: 'What was asked for, without secrets' }),
});

const list = (audit: Audit): Operation =>
  defineOperation({
    ...facts,
    id: 'core.audit.list',
    path: '/audit-logs',
    input: {
      query: Type.Object({
        ...filterFields,
        ...optionalPagingQuery({ maxSkip: 1_000_000 }),
      }),
    },
    output: Type.Object({ entries: Type.Array(AuditEntry), count: Type.Integer() }),
    summary: 'Read the audit log, newest first',
    description:
      'What admins did (every call that may change something, refused ones included) and what happened to accounts.',
    async handler({ caller }, { query: { skip = 0, limit = 25, ...asked } }) {
      const filter = filterOf(caller, asked);
      const [entries, count] = await Promise.all([
        audit.list(filter, { skip, limit }),
        audit.count(filter),
      ]);
      return { entries: entries.map(show), count };
    },
  });

const exportLog = (audit: Audit): Operation =>
  defineOperation({
    ...facts,
    id: 'core.audit.export',
    path: '/audit-logs/export',
    mcp: false,
    graphql: false,
    audit: true,
    deadlineMs: 600_000,
    input: {
      query: Type.Object({
        ...filterFields,
        format: Type.Optional(
          Type.Union([Type.Literal('jsonl'), Type.Literal('csv')], { default: 'jsonl' }),
        ),
      }),
    },
    output: Type.Unknown({ description: 'JSON lines or CSV, oldest first' }),
    streams: {
      'application/x-ndjson': 'One JSON document per line, oldest first',
      'text/csv': 'RFC 4180, oldest first',
    },
    summary: 'Export the audit log',
    description:
      'Streams every entry that the filter lets through, as JSON lines or CSV, oldest first. `Audit-Complete-Until` says from when on entries may come whose changes were not done yet: where the next export begins.',
    async handler({ caller }, { query: { format = 'jsonl', ...asked } }) {
      const filter = filterOf(caller, asked);
      const until = await audit.completeUntil();
      const entries = audit.read(filter);
      const name = {
        'content-disposition': `attachment; filename="audit-log.${format}"`,
        ...(until && { 'audit-complete-until': until.toISOString() }),
      };
      return format === 'csv'
        ? Reply.stream('text/csv; charset=utf-8', auditCsv(entries), name)
        : Reply.stream('application/x-ndjson', auditLines(entries, show), name);
    },
  });

interface AskedFilter extends Omit<AuditFilter, 'from' | 'to'> {
  readonly from?: string;
  readonly to?: string;
}

/** A token that is narrowed to modules reads what happened to those. */
function filterOf(caller: Caller, { from, to, ...others }: AskedFilter): AuditFilter {
  const modules = modulesOfCaller(caller);
  return { ...others, ...moment('from', from), ...moment('to', to), ...(modules && { modules }) };
}

/** A text of the right form may still name no moment (February 30th). */
function moment(name: 'from' | 'to', value: string | undefined): { readonly [key: string]: Date } {
  if (value === undefined) return {};
  const date = new Date(value);
  if (Number.isNaN(date.getTime()))
    throw invalid(name, 'format', 'must be a date and time such as 2026-01-31T00:00:00Z');
  return { [name]: date };
}

const show = ({ id, at, ...others }: AuditRecord): Static<typeof AuditEntry> => ({
  _id: id,
  at: at.toISOString(),
  ...others,
});
