/** The audit log as files: one line per entry. */
import type { AuditRecord } from '../../../kernel/audit/audit.ts';

/** One JSON document per line. */
export async function* auditLines(entries: AsyncIterable<AuditRecord>, show: (entry: AuditRecord) => object): AsyncGenerator<string> {
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
export async function* auditCsv(entries: AsyncIterable<AuditRecord>): AsyncGenerator<string> {
  // Loaded with the first export.
  const { stringify } = await import('csv-stringify/sync');
  const line = (cells: readonly (string | null)[]): string =>
    stringify([cells.map((cell) => cell ?? '')], { record_delimiter: 'windows', escape_formulas: true });
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
